package faults_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// What rows break where another server takes over.

// kill ends a server for good: of a cluster the primary of a third of the slots.
func kill(s *scene) {
	victim := s.servers[0]
	if s.cluster != nil {
		victim = s.cluster.Primaries(s.T)[0]
	}
	victim.Kill()
	s.breaks()
	s.hold()
}

// split lets each replica reach another server, which both take writes, as the two sides of a partition do.
func split(s *scene) {
	old, next := s.servers[0], redistest.Single(s.T)
	host, port, _ := strings.Cut(old.Addr, ":")
	ctx := context.Background()
	s.must(next.Client().ReplicaOf(ctx, host, port).Err())
	redistest.Eventually(s.T, "the copy is complete", func() error {
		info, err := next.Info(ctx, "replication")
		if err == nil && info["master_link_status"] != "up" {
			err = fmt.Errorf("the link is %q", info["master_link_status"])
		}
		return err
	})
	s.must(next.Client().ReplicaOf(ctx, "no", "one").Err())
	s.proxies[1].Redirect(next.Addr)
	s.proxies[1].ResetAll()
	s.breaks()
	s.hold()
	host, port, _ = strings.Cut(next.Addr, ":")
	s.must(old.Client().ReplicaOf(ctx, host, port).Err())
	s.proxies[0].Redirect(next.Addr)
	s.proxies[0].ResetAll()
	s.heals()
}

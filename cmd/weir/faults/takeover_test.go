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
	s.elsewhere = s.keysBeside(victim)
	victim.Kill()
	s.breaks()
	s.hold()
}

// suffix is the end of a key's name in Redis.
func suffix(k key) string {
	return fmt.Sprintf("4:shop4:plan%d:%s4:user%d:%s", len(k.plan), k.plan, len(k.user), k.user)
}

// keysBeside returns the keys that servers other than this one hold now.
func (s *scene) keysBeside(gone *redistest.Server) map[int]bool {
	bySuffix := make(map[string]int)
	for i, k := range allKeys {
		bySuffix[suffix(k)] = i
	}
	beside := make(map[int]bool)
	for _, server := range s.servers {
		if server == gone || !server.Running() {
			continue
		}
		info, err := server.Info(context.Background(), "replication")
		s.must(err)
		if info["role"] != "master" {
			continue
		}
		names, err := server.Client().Keys(context.Background(), "weir:*shop*").Result()
		s.must(err)
		for _, name := range names {
			_, end, _ := strings.Cut(name, "}")
			if i, mine := bySuffix[end]; mine {
				beside[i] = true
			}
		}
	}
	return beside
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

package counter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis"
)

// TestEachShardSpeaksForItself stops one of three nodes, and asks all of them in one call.
func TestEachShardSpeaksForItself(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	addrs := make([]string, len(nodes))
	for i, node := range nodes {
		addrs[i] = node.Addr
	}
	s := opened(t, redis.Config{Type: redis.Ring, URL: strings.Join(addrs, ","), NodeLoss: redis.Pin}, nil)
	keys := make([]string, 32)
	for i := range keys {
		keys[i] = fmt.Sprint("key ", i)
	}
	checks, out := hits(keys...), make([]backend.Decision, len(keys))
	if err := backend.DecideAll(t.Context(), s, checks, out); err != nil {
		t.Fatal(err)
	}
	away := make([]bool, len(checks))
	for i := range checks {
		client, err := s.servers.Owner(s.method.(scripted).appendKey(nil, checks[i].Key))
		if err != nil {
			t.Fatal(err)
		}
		away[i] = client.Options().Addr == nodes[1].Addr
	}
	nodes[1].Stop()
	defer nodes[1].Cont()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the others have all of it
	defer cancel()
	if err := s.Decide(ctx, checks, out); err != nil {
		t.Fatalf("Decide with a node that hangs: %v; want the decisions of the others", err)
	}
	answered := 0
	for i := range out {
		switch {
		case away[i] && !errors.Is(out[i].Err, ErrUnavailable):
			t.Errorf("%s, whose node hangs, got %+v; want ErrUnavailable", keys[i], out[i])
		case !away[i] && (out[i].Err != nil || out[i].Before != 1):
			t.Errorf("%s got %+v; want its node's answer, whatever another node does", keys[i], out[i])
		case !away[i]:
			answered++
		}
	}
	if answered == 0 || answered == len(out) {
		t.Errorf("%d of %d keys are on nodes that answer; want some on each", answered, len(out))
	}
}

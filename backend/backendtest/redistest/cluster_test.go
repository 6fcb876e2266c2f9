package redistest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func clusterClient(t *testing.T, c *redistest.ClusterSet) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keysOf are n keys of one slot, written.
func keysOf(t *testing.T, c *redistest.ClusterSet, tag string, n int) []string {
	t.Helper()
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("{%s}:%d", tag, i))
		must(t, c.NodeOf(t, keys[i]).Client().Set(ctx, keys[i], i, 0).Err())
	}
	return keys
}

// otherThan returns a primary that is not this one.
func otherThan(t *testing.T, c *redistest.ClusterSet, node *redistest.Server) *redistest.Server {
	t.Helper()
	all := c.Primaries(t)
	return all[slices.IndexFunc(all, func(s *redistest.Server) bool { return s != node })]
}

func TestClusterMigratesASlotStepByStep(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	keys := keysOf(t, c, "user", 5)
	slot, from := c.SlotOf(t, keys[0]), c.NodeOf(t, keys[0])
	to := otherThan(t, c, from)
	direct := client(t, &redis.Options{Addr: from.Addr})
	smart := clusterClient(t, c)

	var phases []redistest.Phase
	c.MigrateSlot(t, slot, from, to, func(phase redistest.Phase) {
		phases = append(phases, phase)
		answers := make(map[string]int)
		for i, key := range keys {
			err := direct.Get(ctx, key).Err()
			answers[firstWord(err)]++
			if got, err := smart.Get(ctx, key).Result(); got != fmt.Sprint(i) {
				t.Errorf("%s: a client of the cluster reads %q, %v for %s, want %d", phase, got, err, key, i)
			}
		}
		several := firstWord(direct.MGet(ctx, keys...).Err())
		fresh := firstWord(direct.Get(ctx, "{user}:new").Err())
		got := fmt.Sprintf("%v %s %s", answers, several, fresh)
		if want := map[redistest.Phase]string{
			redistest.Migrating: "map[OK:5] OK ASK",
			redistest.HalfMoved: "map[ASK:2 OK:3] TRYAGAIN ASK",
			redistest.AllMoved:  "map[ASK:5] ASK ASK",
			redistest.Done:      "map[MOVED:5] MOVED MOVED",
		}[phase]; got != want {
			t.Errorf("%s: the old owner answers for keys, all keys and a new one %s, want %s", phase, got, want)
		}
	})
	want := []redistest.Phase{redistest.Migrating, redistest.HalfMoved, redistest.AllMoved, redistest.Done}
	if !slices.Equal(phases, want) {
		t.Errorf("the phases are %v, want %v", phases, want)
	}
	if got := c.NodeOf(t, keys[0]); got != to {
		t.Errorf("slot %d is at %s, want %s", slot, got.Addr, to.Addr)
	}
}

// firstWord returns the kind of a Redis error.
func firstWord(err error) string {
	if err == nil || err == redis.Nil {
		return "OK"
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	keys := keysOf(t, c, "user", 1)
	old := c.NodeOf(t, keys[0])
	must(t, old.Client().Wait(ctx, 1, 0).Err())

	planned := c.Failover(t, old)
	if owner := c.NodeOf(t, keys[0]); planned == old || owner != planned {
		t.Errorf("after a failover of %s, %s has its slots and %s was said to", old.Addr, owner.Addr, planned.Addr)
	}
	wantError(t, "the old primary", old.Client().Get(ctx, keys[0]).Err(), "MOVED")

	other := otherThan(t, c, planned)
	successor := c.Replica(t, other)
	other.Stop()
	c.Await(t)
	if !slices.Contains(c.Primaries(t), successor) || slices.Contains(c.Primaries(t), other) {
		t.Errorf("%s was frozen, and its replica has not taken over", other.Addr)
	}
	other.Restart(t)
	c.Await(t)
	if got := c.Replica(t, successor); got != other {
		t.Errorf("after its restart %s is no replica, but %s is", other.Addr, got.Addr)
	}
	if got, err := clusterClient(t, c).Get(ctx, keys[0]).Result(); got != "0" {
		t.Errorf("a client of the cluster reads %q, %v, want 0", got, err)
	}
}

func TestClusterThroughAProxy(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	const key = "k"
	node := c.NodeOf(t, key)
	t.Run("while it stands", func(t *testing.T) {
		p := c.Proxy(t, node)
		must(t, clusterClient(t, c).Incr(ctx, key).Err())
		if got := p.Requests("INCR"); got != 1 {
			t.Errorf("%d requests went through the proxy, want 1: the cluster sends clients past it", got)
		}
	})
	must(t, clusterClient(t, c).Incr(ctx, key).Err())
	if got := node.Client().Get(ctx, key).Val(); got != "2" {
		t.Errorf("after the proxy has gone, the count is %q, want 2", got)
	}
}

func TestClusterWithTLSAndACL(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, redistest.WithTLS(), redistest.WithACL("weir", "secret", "~*", "+@all"))
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), TLSConfig: c.Nodes[0].TLS.Client(), Username: "weir", Password: "secret",
	})
	defer client.Close()
	keys := keysOf(t, c, "user", 3)
	from := c.NodeOf(t, keys[0])
	c.Proxy(t, from)
	c.MigrateSlot(t, c.SlotOf(t, keys[0]), from, otherThan(t, c, from), nil)
	if got, err := client.Get(ctx, keys[2]).Result(); got != "2" {
		t.Errorf("after a migration a client reads %q, %v, want 2", got, err)
	}
}

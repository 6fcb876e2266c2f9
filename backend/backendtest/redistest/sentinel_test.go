package redistest_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func failoverClient(t *testing.T, set *redistest.SentinelSet) *redis.Client {
	t.Helper()
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: set.Master, SentinelAddrs: set.Addrs()})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSentinelFailoverChangesThePrimary(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t)
	old := set.Primary(t)
	if old != set.Nodes[0] {
		t.Errorf("the primary is %s, want the first node, %s", old.Addr, set.Nodes[0].Addr)
	}
	must(t, old.Client().Set(ctx, "k", "v", 0).Err(), old.Client().Wait(ctx, 1, 0).Err())

	planned := set.Failover(t)
	if planned == old || planned != set.Primary(t) {
		t.Errorf("after a failover from %s the primary is %s", old.Addr, planned.Addr)
	}
	wantError(t, "the old primary takes no writes", old.Client().Set(ctx, "k", "w", 0).Err(), "READONLY")
	if got, err := failoverClient(t, set).Get(ctx, "k").Result(); got != "v" {
		t.Errorf("a client that asks the sentinels reads %q, %v, want v", got, err)
	}

	planned.Kill()
	if got := set.AwaitFailover(t, planned); got != old {
		t.Errorf("after the primary was killed, %s has taken over, want %s", got.Addr, old.Addr)
	}
	must(t, failoverClient(t, set).Set(ctx, "k", "w", 0).Err())

	planned.Restart(t)
	if got := set.Failover(t); got != planned {
		t.Errorf("the killed primary is back, and a failover leads to %s, want %s", got.Addr, planned.Addr)
	}
	if got := planned.Client().Get(ctx, "k").Val(); got != "w" {
		t.Errorf("the server that came back has %q, want w, as its primary had", got)
	}
}

func TestSentinelWithTLSAndPasswords(t *testing.T) {
	t.Parallel()
	set := redistest.Sentinel(t, redistest.WithTLS(), redistest.WithSentinelPassword("guard"),
		redistest.WithACL("weir", "secret", "~*", "+@all"))
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: set.Master, SentinelAddrs: set.Addrs(), SentinelPassword: "guard",
		Username: "weir", Password: "secret", TLSConfig: set.Nodes[0].TLS.Client(),
	})
	defer c.Close()
	must(t, c.Set(ctx, "k", "v", 0).Err())
	stranger := redis.NewSentinelClient(&redis.Options{Addr: set.Addrs()[0], TLSConfig: set.Nodes[0].TLS.Client()})
	defer stranger.Close()
	wantError(t, "a sentinel asked without its password", stranger.Ping(ctx).Err(), "NOAUTH")
}

package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

func TestABlackHoleSwallowsConnectionsAndAnswersUntilItIsRestored(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	far := redistest.FarProxy(t, s.Addr)
	c := dial(t, far.Addr)
	c.wantReply(t, "PING", "+PONG")

	far.BlackHole(t)
	c.send(t, "SET k v")
	if got, err := c.reply(200 * time.Millisecond); err == nil {
		t.Errorf("out of the black hole comes %q", got)
	}
	hasty := redis.NewClient(&redis.Options{Addr: far.Addr, DialTimeout: 200 * time.Millisecond, DialerRetries: 1, MaxRetries: -1})
	defer hasty.Close()
	if err := hasty.Ping(ctx).Err(); err == nil {
		t.Error("a new connection into the black hole is answered")
	}
	far.Restore(t)
	must(t, client(t, &redis.Options{Addr: far.Addr}).Ping(ctx).Err())
}

func TestARedirectedAddressLeadsNewConnectionsElsewhere(t *testing.T) {
	t.Parallel()
	old, next := redistest.Single(t), redistest.Single(t)
	must(t, old.Client().Set(ctx, "at", "old", 0).Err(), next.Client().Set(ctx, "at", "next", 0).Err())
	p := redistest.Proxy(t, old.Addr)
	open := dial(t, p.Addr)
	open.wantReply(t, "GET at", "$3")
	p.Redirect(next.Addr)
	if got := client(t, &redis.Options{Addr: p.Addr}).Get(ctx, "at").Val(); got != "next" {
		t.Errorf("a new connection leads to %q, want the next server", got)
	}
	open.wantReply(t, "GET none", "old") // the second line of the reply before
}

func TestDrippingBytesArriveOneAtATime(t *testing.T) {
	t.Parallel()
	p := redistest.Proxy(t, redistest.Single(t).Addr)
	c := dial(t, p.Addr)
	p.Drip(redistest.Replies, 20*time.Millisecond)
	began := time.Now()
	c.wantReply(t, "PING", "+PONG")
	if took := time.Since(began); took < 6*20*time.Millisecond { // of seven bytes, the last is read when it comes
		t.Errorf("seven bytes came within %v, want a pause of 20ms after each", took)
	}
}

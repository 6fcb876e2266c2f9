package script

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// logs asks checks of one key of a server, at a time that is set.
type logs struct {
	t      *testing.T
	client *redis.Client
	limits []descriptors.Limit
	key    string
	now    int64
}

func newLogs(t *testing.T, limits ...descriptors.Limit) *logs {
	return &logs{t: t, client: startRedis(t), limits: limits, now: begin,
		key: string(AppendKey(nil, []byte("4:shop4:user3:ann"), limits))}
}

func (g *logs) ask(op backend.Op, hits uint64) backend.Decision {
	g.t.Helper()
	c := backend.Check{Limits: g.limits, Op: op, Hits: hits}
	reply, err := g.client.EvalSha(g.t.Context(), sha, []string{g.key}, g.now, AppendArg(nil, &c)).StringSlice()
	if err != nil {
		g.t.Fatal(err)
	}
	d, err := Decode(reply[0], &c)
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

func (g *logs) members() int64 {
	g.t.Helper()
	n, err := g.client.ZCard(g.t.Context(), g.key).Result()
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

// changes is how many writes the server has seen.
func (g *logs) changes() string {
	g.t.Helper()
	info, err := g.client.Info(g.t.Context(), "persistence").Result()
	if err != nil {
		g.t.Fatal(err)
	}
	_, after, _ := strings.Cut(info, "rdb_changes_since_last_save:")
	n, _, _ := strings.Cut(after, "\r\n")
	return n
}

func TestADeniedCheckOfALogWritesNothing(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 5, descriptors.Minute, 1, descriptors.SlidingLog, 0),
		backendtest.NewLimit(t, 9, descriptors.Hour, 1, descriptors.SlidingLog, 0))
	for range 5 {
		g.now += 1e6
		g.ask(backend.Count, 1)
	}
	before := g.changes()
	for _, hits := range []uint64{1, 3, 5, 6} {
		g.now += 1e6
		if d := g.ask(backend.Count, hits); d.Allowed {
			t.Fatalf("%d hits more than 5 a minute are admitted: %+v", hits, d)
		}
		g.ask(backend.Look, 0)
	}
	if after := g.changes(); after != before || g.members() != 10 {
		t.Errorf("denied checks and looks made the server's writes %s of %s, and %d members of 10: an attack must not load "+
			"its replicas", after, before, g.members())
	}
}

func TestACheckRemovesAFewOfThoseThatHaveLeft(t *testing.T) {
	const n, most = 200, 64
	g := newLogs(t, backendtest.NewLimit(t, n, descriptors.Minute, 1, descriptors.SlidingLog, 0))
	for range n {
		g.now++
		g.ask(backend.Count, 1)
	}
	g.now += 60e6
	for left, added := int64(n), int64(1); left > 0; added++ {
		if d := g.ask(backend.Count, 1); !d.Allowed || d.Before != uint64(added-1) {
			t.Fatalf("with %d members that have left: %+v; want them counted no more", left, d)
		}
		left = max(0, left-most)
		if got := g.members(); got != left+added {
			t.Fatalf("after %d checks the key has %d members, want %d: a check removes %d", added, got, left+added, most)
		}
		g.now++
	}
}

// The key lives until its last hit has left. Redis forgets how long when a check has taken out a key's only member, to
// write it anew.
func TestALogExpiresWithItsLastHit(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0))
	for _, step := range []struct {
		what string
		op   backend.Op
		hits uint64
	}{{"a hit", backend.Count, 4}, {"another in the same microsecond", backend.Count, 3}, {"a refund of a part", backend.Refund, 2}} {
		g.ask(step.op, step.hits)
		ttl, err := g.client.PTTL(t.Context(), g.key).Result()
		if err != nil || ttl > time.Minute || ttl < time.Minute-10*time.Second || g.members() != 1 {
			t.Errorf("after %s the key, of %d members, expires in %v (%v); want one, and a minute", step.what, g.members(), ttl, err)
		}
	}
	if g.ask(backend.Refund, 5); g.members() != 0 {
		t.Error("a refund of all leaves something behind")
	}
}

func TestAStrangeMemberOfALogIsAnError(t *testing.T) {
	l := backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	for _, text := range []string{"", "l1o:", "l1o:" + strings.Repeat("x", 20), "l2s0:" + strings.Repeat("x", 21)} {
		if c, err := CountLog(l, []string{text}, nil, window.Instant(begin)); err == nil {
			t.Errorf("%q is shown as %+v; want an error", text, c)
		}
	}
}

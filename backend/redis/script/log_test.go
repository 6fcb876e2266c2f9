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
		key: string(AppendKey(nil, []byte("4:shop4:user3:ann")))}
}

func (g *logs) ask(op backend.Op, hits uint64) backend.Decision {
	g.t.Helper()
	return asFunction.ask(g.t, g.client, g.key, g.now, backend.Check{Limits: g.limits, Op: op, Hits: hits})
}

// fields returns how many fields the key has.
func (g *logs) fields() int64 {
	g.t.Helper()
	n, err := g.client.HLen(g.t.Context(), g.key).Result()
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

// fill counts hits of one a microsecond.
func (g *logs) fill(hits int) {
	g.t.Helper()
	pipe := g.client.Pipeline()
	for range hits {
		g.now++
		asFunction.call(g.t.Context(), pipe, []string{g.key}, g.now, &backend.Check{Limits: g.limits, Hits: 1})
	}
	if _, err := pipe.Exec(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
}

func TestADeniedCheckWritesNothing(t *testing.T) {
	five := func(u descriptors.Unit, a descriptors.Algorithm) descriptors.Limit {
		return backendtest.NewLimit(t, 5, u, 1, a, 0)
	}
	for _, limits := range [][]descriptors.Limit{
		{five(descriptors.Hour, descriptors.TokenBucket)},
		{five(descriptors.Hour, descriptors.TokenBucket), five(descriptors.Day, descriptors.TokenBucket)},
		{five(descriptors.Hour, descriptors.SlidingLog), five(descriptors.Day, descriptors.SlidingLog)},
		{five(descriptors.Hour, descriptors.SlidingWindow), five(descriptors.Day, descriptors.TokenBucket)},
	} {
		g := newLogs(t, limits...)
		g.ask(backend.Count, 5)
		before := g.changes()
		for _, hits := range []uint64{1, 3, 5, 6} {
			g.now += 1e6
			if d := g.ask(backend.Count, hits); d.Allowed {
				t.Fatalf("%d hits more than 5 are admitted under %v: %+v", hits, limits, d)
			}
			g.ask(backend.Look, 0)
		}
		if after := g.changes(); after != before {
			t.Errorf("under %v denied checks and looks made the server's writes %s of %s: an attack must not load its replicas",
				limits, after, before)
		}
	}
}

func TestACheckRemovesAFewOfTheChunksThatHaveLeft(t *testing.T) {
	const full, most = 40, 8 // chunks, and those of them that a check removes
	g := newLogs(t, backendtest.NewLimit(t, full*logChunk+1, descriptors.Minute, 1, descriptors.SlidingLog, 0))
	g.fill(full*logChunk + 1)
	if got := g.fields(); got != full+1 {
		t.Fatalf("the key has %d fields, want a header and %d chunks", got, full)
	}
	g.now += 60e6
	for left, added := int64(full), uint64(0); left > 0; added++ {
		if d := g.ask(backend.Count, 1); !d.Allowed || d.Before != added {
			t.Fatalf("with %d chunks that have left: %+v; want them counted no more", left, d)
		}
		left = max(0, left-most)
		if got := g.fields(); got != left+1 {
			t.Fatalf("after %d checks the key has %d fields, want %d: a check removes %d", added+1, got, left+1, most)
		}
		g.now++
	}
}

// A grant of thousands of hits, and a clock that steps back over them, must not hold up the server: what they leave
// over goes by and by, and counts no more.
func TestALongLogIsCutAtOnceAndClearedByAndBy(t *testing.T) {
	const full, most = 40, 8
	limit := backendtest.NewLimit(t, 9999, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	for what, cut := range map[string]func(g *logs) backend.Decision{
		"a refund":                func(g *logs) backend.Decision { return g.ask(backend.Refund, (full-1)*logChunk) },
		"a clock that steps back": func(g *logs) backend.Decision { g.now -= (full - 1) * logChunk; return g.ask(backend.Look, 0) },
	} {
		g := newLogs(t, limit)
		g.fill(full*logChunk + 1)
		cut(g)
		for n := int64(1); g.fields() > 2; n++ {
			if got := g.fields(); got < full+1-n*most || n > full {
				t.Fatalf("after %s and %d checks the key has %d fields; want %d of them gone with each check", what, n-1, got, most)
			}
			g.now++
			g.ask(backend.Count, 1)
		}
	}
}

// The key lives until its last hit has left, and up to a sixteenth of its window longer.
func TestALogExpiresWithItsLastHit(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0))
	for _, step := range []struct {
		what string
		op   backend.Op
		hits uint64
	}{{"a hit", backend.Count, 4}, {"another in the same microsecond", backend.Count, 3}, {"a refund of a part", backend.Refund, 2}} {
		g.ask(step.op, step.hits)
		ttl, err := g.client.PTTL(t.Context(), g.key).Result()
		if err != nil || ttl > time.Minute*17/16 || ttl < time.Minute-10*time.Second || g.fields() != 1 {
			t.Errorf("after %s the key, of %d fields, expires in %v (%v); want one, and a minute", step.what, g.fields(), ttl, err)
		}
	}
	if g.ask(backend.Refund, 5); g.fields() != 0 {
		t.Error("a refund of all leaves something behind")
	}
}

func TestAStrangeLogIsAnError(t *testing.T) {
	l := backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	for _, header := range []string{"x", strings.Repeat("x", logHeader), strings.Repeat("x", logHeader+8)} {
		if g, err := readLog(header, &l); err == nil {
			t.Errorf("%q is read as %+v; want an error", header, g)
		}
	}
	g := log{limit: &l, tail: string(make([]byte, 7))}
	for _, chunk := range []string{"", "x", strings.Repeat("x", 8)} {
		if c, err := g.count("", []string{chunk}, window.Instant(begin)); err == nil {
			t.Errorf("the chunk %q is shown as %+v; want an error", chunk, c)
		}
	}
}

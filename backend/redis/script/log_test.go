package script

import (
	"math/rand/v2"
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

const logChunk = 32 // instants of a full chunk

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

func TestDeniedCheckWritesNothing(t *testing.T) {
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

// A window of thousands of hits that passes, a grant of them, and a clock that steps back over them must not hold up
// the server: what they leave over goes by and by, a few chunks with each check.
func TestLongLogIsTrimmedInSmallSteps(t *testing.T) {
	const full, most = 40, 8
	limit := backendtest.NewLimit(t, 9999, descriptors.Minute, 1, descriptors.SlidingLog, 0)
	for what, cut := range map[string]func(g *logs) backend.Decision{
		"a window":                func(g *logs) backend.Decision { g.now += 60e6; return g.ask(backend.Look, 0) },
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

// lives wants the key to live for so long, and up to a sixteenth of a minute longer.
func (g *logs) lives(what string, least time.Duration) {
	g.t.Helper()
	ttl, err := g.client.PTTL(g.t.Context(), g.key).Result()
	if most := least + time.Minute/16; err != nil || ttl > most || ttl < least-10*time.Second {
		g.t.Errorf("after %s the key expires in %v (%v); want %v to %v", what, ttl, err, least, most)
	}
}

// The key lives until its last hit has left, and up to a sixteenth of its window longer.
func TestLogExpiresWithItsLastHit(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 10, descriptors.Minute, 1, descriptors.SlidingLog, 0))
	for _, step := range []struct {
		what string
		op   backend.Op
		hits uint64
	}{{"a hit", backend.Count, 4}, {"another in the same microsecond", backend.Count, 3}, {"a refund of a part", backend.Refund, 2}} {
		g.ask(step.op, step.hits)
		if g.lives(step.what, time.Minute); g.fields() != 1 {
			t.Errorf("after %s the key has %d fields; want one", step.what, g.fields())
		}
	}
	if g.ask(backend.Refund, 5); g.fields() != 0 {
		t.Error("a refund of all leaves something behind")
	}
}

// anyBucket draws a token bucket of any size, up to those that doubles can hardly tell.
func anyBucket(t *testing.T, r *rand.Rand) descriptors.Limit {
	t.Helper()
	n := 1 + r.Uint64N(1<<r.IntN(53))
	l := backendtest.NewLimit(t, n, descriptors.Unit(1+r.IntN(7)), 1+r.Uint32N(200), descriptors.TokenBucket, 0)
	l, err := l.WithBurst(1 + r.Uint64N(min(descriptors.MaxBurst, 4*n)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The conformance suite keeps to numbers that fractions and doubles agree on. Here they are of any size, and the script
// must round as Go does, to the last hit and the last microsecond.
func TestScriptTokenBucketsMatchGo(t *testing.T) {
	client := startRedis(t)
	r := rand.New(rand.NewPCG(*seed, 27))
	for round := range part(*steps) / 200 {
		limit, now := anyBucket(t, r), window.Instant(begin)+window.Instant(r.Int64N(1e12))
		s := window.NewState(&limit)
		key := string(AppendKey(nil, []byte{byte(round), byte(round >> 8)}))
		pipe := client.TxPipeline()
		var asked []backend.Check
		var want []backend.Decision
		var replies []*redis.Cmd
		for range 200 {
			most := min(limit.Window.Microseconds()/8, 1e13) // scripts tell no time after the year 2255
			now += window.Instant(r.Int64N(most) - most/8)
			if r.IntN(50) == 0 {
				limit.Requests = 1 + r.Uint64N(2*limit.Requests)%descriptors.MaxBurst
			}
			c := backend.Check{Key: []byte("k"), Limits: []descriptors.Limit{limit}, Hits: 1 + r.Uint64N(limit.Burst)}
			c.Op = []backend.Op{backend.Count, backend.Count, backend.Count, backend.Look, backend.Refund}[r.IntN(5)]
			c.Charge = descriptors.Charge(r.IntN(3))
			s.SetRate(&limit, now)
			asked, want = append(asked, c), append(want, window.Decide([]window.State{s}, &c, now))
			replies = append(replies, asFunction.call(t.Context(), pipe, []string{key}, int64(now), &c))
			pipe.Persist(t.Context(), key) // time is the test's alone
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, reply := range replies {
			texts, err := reply.StringSlice()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Decode(texts[0], &asked[i]); err != nil || got != want[i] {
				t.Fatalf("round %d, step %d, %+v:\nscript %+v, %v\nGo     %+v", round, i, asked[i], got, err, want[i])
			}
		}
	}
}

// The key of a bucket lives until its last hit has leaked, and up to a sixteenth of a window longer; also where a
// configuration has it leak slower. It goes when nothing is left.
func TestTokenBucketExpiresWithItsLastHit(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 60, descriptors.Minute, 1, descriptors.TokenBucket, 0))
	g.ask(backend.Count, 30)
	g.lives("30 hits of 60 a minute", 30*time.Second)
	g.ask(backend.Count, 15)
	g.lives("15 more", 45*time.Second)
	g.limits[0].Requests = 30
	g.ask(backend.Look, 0)
	g.lives("a look under 30 a minute", 90*time.Second)
	if g.ask(backend.Refund, 45); g.client.Exists(t.Context(), g.key).Val() != 0 {
		t.Error("a refund of all leaves something behind")
	}
	g.ask(backend.Count, 1)
	g.now += 2e6
	if g.ask(backend.Look, 0); g.client.Exists(t.Context(), g.key).Val() != 0 {
		t.Error("a look at an empty bucket leaves something behind")
	}
}

// Whatever someone did to the field, a check ends, with a decision or an error of its own.
func TestDamagedTokenBucketNeverBlocksRedis(t *testing.T) {
	client := startRedis(t)
	r := rand.New(rand.NewPCG(28, 29))
	for range part(3000) {
		limit := anyBucket(t, r)
		c := backend.Check{Limits: []descriptors.Limit{limit}, Op: backend.Op(r.IntN(3)), Hits: r.Uint64N(2 * limit.Burst)}
		if r.IntN(2) == 0 {
			c.Limits = append(c.Limits, backendtest.NewLimit(t, 9, descriptors.Year, 1, descriptors.FixedWindow, 0))
		}
		field := make([]byte, []int{28, 28, 28, 0, 27, 29, 42}[r.IntN(7)])
		for i := range field {
			if i%7 < r.IntN(8) {
				field[i] = byte(r.IntN(256))
			}
		}
		name, key := string(appendName(nil, &limit)), "weir:{damaged}"
		if err := client.HSet(t.Context(), key, name, field).Err(); err != nil {
			t.Fatal(err)
		}
		asFunction.ends(t, client, key, begin, c)
	}
}

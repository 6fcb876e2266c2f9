package script

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

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
func TestBucketsOfTheScriptAreThoseOfGo(t *testing.T) {
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
func TestABucketExpiresWithItsLastHit(t *testing.T) {
	g := newLogs(t, backendtest.NewLimit(t, 60, descriptors.Minute, 1, descriptors.TokenBucket, 0))
	lives := func(what string, least time.Duration) {
		t.Helper()
		ttl, err := g.client.PTTL(t.Context(), g.key).Result()
		if most := least + time.Minute/16; err != nil || ttl > most || ttl < least-10*time.Second {
			t.Errorf("after %s the key expires in %v (%v); want %v to %v", what, ttl, err, least, most)
		}
	}
	g.ask(backend.Count, 30)
	lives("30 hits of 60 a minute", 30*time.Second)
	g.ask(backend.Count, 15)
	lives("15 more", 45*time.Second)
	g.limits[0].Requests = 30
	g.ask(backend.Look, 0)
	lives("a look under 30 a minute", 90*time.Second)
	if g.ask(backend.Refund, 45); g.client.Exists(t.Context(), g.key).Val() != 0 {
		t.Error("a refund of all leaves something behind")
	}
	g.ask(backend.Count, 1)
	g.now += 2e6
	if g.ask(backend.Look, 0); g.client.Exists(t.Context(), g.key).Val() != 0 {
		t.Error("a look at an empty bucket leaves something behind")
	}
}

// Whatever someone did to the field, a check ends, with a decision or an error of its own, and so does a look at it.
func TestADamagedBucketHangsNothing(t *testing.T) {
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
		Count(map[string]string{name: string(field)}, &limit, time.UnixMicro(begin))
	}
}

package redis

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

// ofPlainStore is the pattern of the keys of plainStore.
var ofPlainStore = fmt.Sprintf("*_%d", plainBegin)

// heldBy is what a server holds for keys of a pattern, and how many of these have no end. Those of the script are
// hashes, and are left out.
func heldBy(t *testing.T, server *redistest.Server, pattern string) (sum int64, immortal int) {
	t.Helper()
	client, ctx := server.Client(), t.Context()
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if n, err := client.Get(ctx, keys.Val()).Int64(); err == nil {
			sum += n
			if client.TTL(ctx, keys.Val()).Val() < 0 {
				immortal++
			}
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatal(err)
	}
	return sum, immortal
}

func TestAHitOfAPlainKeyIsCountedAtMostOnce(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, addr string, patience time.Duration) *Store {
		return plainStore(t, over(fixed{testClient(t, addr, patience)}, patience))
	}
	whileCommandsAreLost(t, "INCRBY", "\x00d_k_v_", open, func(t *testing.T, server *redistest.Server, n *tally, runs bool) {
		got, immortal := heldBy(t, server, ofPlainStore)
		least, most := n.answered.Load(), n.answered.Load()+n.unknown.Load()
		t.Logf("%d hits are counted; %d were answered, and %d lost", got, n.answered.Load(), n.unknown.Load())
		if got < least || got > most || runs && got != most {
			t.Errorf("%d hits are counted; want %d to %d, and the most if Redis ran what was lost", got, least, most)
		}
		if immortal > 0 {
			t.Error("the key has no TTL: it would stay for ever")
		}
	})
}

// Refunds race counts and each other: what is given back was counted, and nothing below zero stays.
func TestRefundsRace(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := plainStore(t, over(fixed{testClient(t, server.Addr, ample)}, ample))
	for round := range 20 {
		key := fmt.Sprintf("\x00d_round_%d_", round)
		count := hit(key)
		count.Hits = 5
		askOne(t, s, count)
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				back := hit(key)
				back.Op, back.Hits = backend.Refund, 3
				for range 10 {
					if d := askOne(t, s, back); !d.Allowed {
						t.Errorf("a refund is answered %+v", d)
					}
				}
			})
		}
		running.Wait()
		name := fmt.Sprintf("d_round_%d_%d", round, plainBegin)
		n, err := server.Client().Get(t.Context(), name).Int64()
		if err != nil || n != 0 {
			t.Fatalf("after 5 hits and refunds of 240 the key holds %d (%v); want 0", n, err)
		}
		if ttl := server.Client().TTL(t.Context(), name).Val(); ttl < time.Second || ttl > 360*time.Second {
			t.Errorf("its TTL is %v; want up to its window and the jitter", ttl)
		}
	}
	key := "\x00d_absent_"
	back := hit(key)
	back.Op, back.Hits = backend.Refund, 7
	if d := askOne(t, s, back); !d.Allowed || d.Before != 0 || d.Remaining != 1 {
		t.Errorf("a refund where nothing is: %+v", d)
	}
	if _, immortal := heldBy(t, server, ofPlainStore); immortal > 0 {
		t.Errorf("%d keys have no TTL", immortal)
	}
}

// No number of hits brings a counter below what it was, nor to an error that others meet until the window ends.
func TestHugeHitsBlockNobodyElse(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	s := plainStore(t, over(fixed{testClient(t, server.Addr, ample)}, ample))
	name := fmt.Sprintf("d_k_v_%d", plainBegin)
	for _, hits := range []uint64{5, 1 << 63, 1<<64 - 3, 1<<64 - 1, 1<<53 - 1, 1 << 62} {
		huge := hit("\x00d_k_v_")
		huge.Hits = hits
		if d := askOne(t, s, huge); d.Allowed {
			t.Errorf("%d hits under 1 a minute are allowed: %+v", hits, d)
		}
		if n, _ := server.Client().Get(t.Context(), name).Int64(); n < 5 || n > 1<<53-1 {
			t.Fatalf("after %d hits the key holds %d; want no less than before, and no more than 2^53-1", hits, n)
		}
	}
	back := hit("\x00d_k_v_")
	back.Op, back.Hits = backend.Refund, 1<<64-1
	askOne(t, s, back)
	if d := askOne(t, s, hit("\x00d_k_v_")); !d.Allowed || d.Before != 0 {
		t.Errorf("after a grant of all: %+v; want the key open again", d)
	}
	// What envoyproxy/ratelimit may leave: a number that nothing fits beside, and one below zero.
	if err := server.Client().Set(t.Context(), name, "9223372036854775807", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if d := askOne(t, s, hit("\x00d_k_v_")); d.Allowed || d.RetryIn != 23*time.Second {
			t.Errorf("where Redis can count no more: %+v; want it denied for the rest of the window", d)
		}
	}
	askOne(t, s, back)
	if err := server.Client().Set(t.Context(), name, "-9223372036854775808", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []backend.Op{backend.Refund, backend.Look, backend.Count} {
		check := hit("\x00d_k_v_")
		check.Op = op
		if d := askOne(t, s, check); !d.Allowed || d.Before != 0 {
			t.Errorf("operation %d at a number far below zero: %+v; want it allowed", op, d)
		}
	}
}

// A thousand descriptors, with signs that Redis and the format itself stumble over, are counted where
// envoyproxy/ratelimit counts them: a naive model spells the keys as that program's README has it.
func TestRandomDescriptorsAgreeWithANaiveModel(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	var now atomic.Int64
	keys := incr.Keys{Jitter: 300, CalendarMonths: true}
	m := openedMixed(t, topology.Config{URL: server.Addr}, &now, keys)
	r := rand.New(rand.NewPCG(14, 1))
	words := []string{"", "a", "b", "_", "a_b", "{a}", "}{", "*", "a/*", "é", "\x00", "\r\n", " ", "\xff", "0", "k_v_1234"}
	word := func() string { return words[r.IntN(len(words))] }
	counts := make(map[string]uint64)
	for range 1000 {
		domain := "d" + word()
		var d descriptors.Descriptor
		for range 1 + r.IntN(3) {
			d = append(d, descriptors.Entry{Key: "k" + word(), Value: word()})
		}
		unit := descriptors.Units()[1+r.IntN(6)] // those of a second end while this runs
		at := time.Unix(1_700_000_000+r.Int64N(1e8), r.Int64N(1e9))
		now.Store(at.UnixMicro())

		limit := backendtest.NewLimit(t, 3, unit, 1, descriptors.FixedWindow, 0)
		in := &descriptors.Domain{Name: domain, Where: "f:1"}
		c := descriptors.NewConfig(descriptors.Keys{Format: descriptors.KeysOfRatelimit, Prefix: "p:"}, []*descriptors.Domain{in}, nil)
		key := c.Match(domain, d).Apart(&limit, descriptors.ChargeByAlgorithm).AppendKey(nil, domain, d)

		begin := at.Unix() - at.Unix()%int64(unit.Duration()/time.Second)
		if unit == descriptors.Month {
			begin = time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC).Unix()
		}
		name := "p:" + domain + "_"
		for _, e := range d {
			name += e.Key + "_" + e.Value + "_"
		}
		name += fmt.Sprint(begin)

		hits := 1 + r.Uint64N(3)
		got := askOne(t, m, backend.Check{Key: key, Limits: []descriptors.Limit{limit}, Hits: hits})
		if want := counts[name]+hits <= 3; got.Before != counts[name] || got.Allowed != want {
			t.Fatalf("%d hits of %q in %q at %v, per %v: %+v; want a count of %d before, allowed = %v", hits, d, domain, at, unit,
				got, counts[name], want)
		}
		counts[name] += hits
	}
	for name, want := range counts {
		if n, err := server.Client().Get(t.Context(), name).Uint64(); err != nil || n != want {
			t.Errorf("the key %q of envoyproxy/ratelimit holds %d (%v); want %d", name, n, err, want)
		}
	}
	if n := server.Client().DBSize(t.Context()).Val(); n != int64(len(counts)) {
		t.Errorf("Redis holds %d keys; want the %d of the model", n, len(counts))
	}
}

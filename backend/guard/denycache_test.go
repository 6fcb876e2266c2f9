package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
)

// countingStore is a memory store that counts the checks that it gets.
type countingStore struct {
	*memory.Store
	checks atomic.Int64
}

func (s *countingStore) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	s.checks.Add(int64(len(checks)))
	return s.Store.Decide(ctx, checks, out)
}

// testGuard runs a test in a synctest bubble, with a guard and its memory store.
func testGuard(t *testing.T, c Config, test func(t *testing.T, g *Guard, store *countingStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		test(t, New(store, c), store)
	})
}

// newStore opens a store until the test ends. In a synctest bubble it uses the bubble's clock.
func newStore(t testing.TB) *countingStore {
	t.Helper()
	return &countingStore{Store: fixture.Memory(t, nil)}
}

// limitOf returns a limit of n hits a unit.
func limitOf(t testing.TB, n uint64, u descriptors.Unit, a descriptors.Algorithm) []descriptors.Limit {
	t.Helper()
	return []descriptors.Limit{backendtest.NewLimit(t, n, u, 1, a, 0)}
}

func perMinute(t testing.TB, n uint64) []descriptors.Limit {
	return limitOf(t, n, descriptors.Minute, descriptors.SlidingWindow)
}

// count returns a check that counts hits for a key.
func count(key string, limits []descriptors.Limit, hits uint64) backend.Check {
	return backend.Check{Key: []byte(key), Limits: limits, Hits: hits, Enforced: true}
}

// wantDenied uses hits of a key with a limit of 10, and then fails the test unless a check of hits is denied.
func wantDenied(t testing.TB, c backend.Counter, key string, limits []descriptors.Limit, used, hits uint64) {
	t.Helper()
	if used > 0 && !backendtest.Ask(t, c, count(key, limits, used)).Allowed {
		t.Fatalf("%d of 10 hits were denied", used)
	}
	if backendtest.Ask(t, c, count(key, limits, hits)).Allowed {
		t.Fatalf("%d hits passed although %d of 10 were used", hits, used)
	}
}

// fillAndDeny uses all of a limit of 10 an hour, so that one more hit is denied.
func fillAndDeny(t testing.TB, c backend.Counter, key string) []descriptors.Limit {
	t.Helper()
	limits := limitOf(t, 10, descriptors.Hour, descriptors.SlidingWindow) // whose precision is more than a second
	wantDenied(t, c, key, limits, 10, 1)
	return limits
}

func TestKnownDenialsDoNotReachTheStore(t *testing.T) {
	testGuard(t, Config{}, func(t *testing.T, g *Guard, store *countingStore) {
		limits := fillAndDeny(t, g, "k")
		before, first := store.checks.Load(), backendtest.Ask(t, g, count("k", limits, 1))
		time.Sleep(900 * time.Millisecond)
		later := backendtest.Ask(t, g, count("k", limits, 3))
		if n := store.checks.Load() - before; n != 0 || first.Source != backend.FromDenyCache {
			t.Errorf("the store was asked %d more times within the second, and the answer came from %d; want none, and the deny cache",
				n, first.Source)
		}
		if first.Allowed || later.Allowed || first.RetryIn-later.RetryIn != 900*time.Millisecond {
			t.Errorf("denials are %+v and, 900 ms later, %+v; want both denied, the later one for 900 ms less", first, later)
		}
		time.Sleep(100 * time.Millisecond)
		if backendtest.Ask(t, g, count("k", limits, 1)); store.checks.Load() != before+1 {
			t.Error("a second after it, a denial is still believed: a reset by another replica would go unnoticed")
		}
	})
}

func TestCachedDenialAnswersOnlyTheSameCheck(t *testing.T) {
	kept := Config{FixedWindowBytes: 1}
	sliding, daily := perMinute(t, 10), limitOf(t, 10, descriptors.Day, descriptors.FixedWindow)
	both := append(limitOf(t, 10, descriptors.Hour, descriptors.FixedWindow), daily...)
	look := backend.Check{Key: []byte("k"), Limits: sliding, Op: backend.Look}
	always := backend.Check{Key: []byte("k"), Limits: sliding, Hits: 1, Charge: descriptors.ChargeAlways}
	reset := func(t *testing.T, g *Guard) error { return g.Reset(t.Context(), []byte("k")) }
	again := func(c backend.Check) func(t *testing.T, g *Guard) error {
		return func(t *testing.T, g *Guard) error { return backendtest.Ask(t, g, c).Err }
	}
	refund := func(limits []descriptors.Limit) func(t *testing.T, g *Guard) error {
		return again(backend.Check{Key: []byte("k"), Limits: limits, Op: backend.Refund, Hits: 5})
	}
	for name, tc := range map[string]struct {
		config       Config
		limits       []descriptors.Limit
		used, denied uint64
		between      func(t *testing.T, g *Guard) error
		then         backend.Check
		allowed      bool
		source       backend.Source
	}{
		"fewer hits may fit":        {Config{}, sliding, 8, 5, nil, count("k", sliding, 1), true, backend.FromStore},
		"as many hits do not":       {Config{}, sliding, 8, 5, nil, count("k", sliding, 5), false, backend.FromDenyCache},
		"nor more than ever fit":    {Config{}, sliding, 10, 1, nil, count("k", sliding, 11), false, backend.FromDenyCache},
		"under another limit":       {Config{}, sliding, 10, 1, nil, count("k", perMinute(t, 100), 1), true, backend.FromStore},
		"a second look":             {Config{}, sliding, 10, 1, again(look), look, false, backend.FromStore},
		"what charges denied hits":  {Config{}, sliding, 10, 1, nil, always, false, backend.FromStore},
		"after a refund":            {Config{}, sliding, 10, 1, refund(sliding), count("k", sliding, 1), true, backend.FromStore},
		"after a reset":             {Config{}, sliding, 10, 1, reset, count("k", sliding, 1), true, backend.FromStore},
		"a fixed window, not kept":  {Config{}, daily, 0, 11, nil, count("k", daily, 1), false, backend.FromStore},
		"a fixed window":            {kept, daily, 0, 11, nil, count("k", daily, 1), false, backend.FromDenyCache},
		"several fixed windows":     {kept, both, 0, 11, nil, count("k", both, 1), false, backend.FromStore},
		"a fixed window and reset":  {kept, daily, 0, 11, reset, count("k", daily, 1), true, backend.FromStore},
		"a fixed window and refund": {kept, daily, 0, 11, refund(daily), count("k", daily, 1), true, backend.FromStore},
		"a fixed window, raised": {kept, daily, 0, 11, nil,
			count("k", limitOf(t, 20, descriptors.Day, descriptors.FixedWindow), 1), true, backend.FromStore},
	} {
		t.Run(name, func(t *testing.T) {
			testGuard(t, tc.config, func(t *testing.T, g *Guard, _ *countingStore) {
				wantDenied(t, g, "k", tc.limits, tc.used, tc.denied)
				if tc.between != nil {
					if err := tc.between(t, g); err != nil {
						t.Fatal(err)
					}
				}
				d := backendtest.Ask(t, g, tc.then)
				if d.Source != tc.source || d.Allowed != tc.allowed {
					t.Errorf("%d hits got %+v; want them decided by %d, allowed: %v", tc.then.Hits, d, tc.source, tc.allowed)
				}
				if never := tc.then.Hits > 10; never != (d.RetryIn == backend.Never) {
					t.Errorf("%d hits are told to come again in %v; want to hear never where they never fit", tc.then.Hits, d.RetryIn)
				}
			})
		})
	}
}

func TestRefundAdmitsCountsOfTheSameCall(t *testing.T) {
	testGuard(t, Config{}, func(t *testing.T, g *Guard, _ *countingStore) {
		limits := fillAndDeny(t, g, "k")
		var out [2]backend.Decision
		refund := backend.Check{Key: []byte("k"), Limits: limits, Op: backend.Refund, Hits: 4}
		err := g.Decide(t.Context(), []backend.Check{refund, count("k", limits, 4)}, out[:])
		if err != nil || !out[1].Allowed {
			t.Errorf("4 hits after a refund of 4 got %+v (%v), want them to pass", out[1], err)
		}
	})
}

// The store's denial may still be in flight while the key is reset.
func TestDenyCacheIgnoresDenialsBeforeAReset(t *testing.T) {
	var d denyCache
	d.init(0)
	check := count("k", perMinute(t, 10), 1)
	var known backend.Decision
	place, _ := d.lookUp(&check, time.Now(), &known)
	d.evict(check.Key)
	d.add(&check, &backend.Decision{RetryIn: time.Minute, ResetIn: time.Minute}, place, time.Now(), time.Now())
	if _, denied := d.lookUp(&check, time.Now(), &known); denied {
		t.Error("a denial that was asked for before the key was forgotten is believed after it")
	}
}

func TestKnownDenialLeavesOtherDescriptorsUncharged(t *testing.T) {
	testGuard(t, Config{}, func(t *testing.T, g *Guard, store *countingStore) {
		denied := count("denied", fillAndDeny(t, g, "denied"), 1)
		other, full := count("other", perMinute(t, 5), 2), count("full", perMinute(t, 5), 6)
		fixed := count("fixed", limitOf(t, 5, descriptors.Minute, descriptors.FixedWindow), 1)
		var out [4]backend.Decision
		for range 3 {
			if err := g.Decide(t.Context(), []backend.Check{other, denied, fixed, full}, out[:]); err != nil {
				t.Fatal(err)
			}
		}
		if d := out[0]; !d.Allowed || d.Source != backend.FromLook || d.Remaining != 5 {
			t.Errorf("the descriptor with room got %+v, want it looked at, with all 5 hits left", d)
		}
		if d := out[3]; d.Allowed || d.RetryIn == 0 {
			t.Errorf("a descriptor that 6 of 5 hits are asked of got %+v, want it denied, with a time", d)
		}
		if out[2].Before != 2 {
			t.Errorf("a fixed window, which charges denied hits too, counted %d before the third request; want 2", out[2].Before)
		}
		denied.Enforced = false // a shadow rule refuses nothing
		if err := g.Decide(t.Context(), []backend.Check{other, denied}, out[:2]); err != nil || out[0].Remaining != 3 {
			t.Errorf("beside a shadow rule's denial the other descriptor has %d left (%v), want 3: it is counted", out[0].Remaining, err)
		}
	})
}

// A guard that is the only user of its store must deny the same checks as the store alone, for as long.
func TestGuardDecidesLikeItsStore(t *testing.T) {
	seeds := uint64(200)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		testGuard(t, Config{}, func(t *testing.T, g *Guard, _ *countingStore) {
			r, twin := rand.New(rand.NewPCG(13, seed)), newStore(t)
			limits := make([][]descriptors.Limit, 6)
			for i := range limits {
				a := descriptors.Algorithm(1 + r.IntN(4))
				limits[i] = limitOf(t, r.Uint64N(12), []descriptors.Unit{descriptors.Second, descriptors.Minute}[r.IntN(2)], a)
				if r.IntN(3) == 0 && a != descriptors.SlidingLog {
					limits[i] = append(limits[i], limitOf(t, r.Uint64N(20), descriptors.Hour, descriptors.SlidingWindow)...)
				}
			}
			for step := range 300 {
				of := r.IntN(len(limits))
				check := backend.Check{Key: fmt.Appendf(nil, "k%d", r.IntN(3)), Limits: limits[of], Hits: r.Uint64N(5),
					Op: backend.Op(max(0, r.IntN(12)-9))}
				if limits[of][0].Algorithm == descriptors.TokenBucket { // a bucket under two limits leaks by both
					check.Key = fmt.Appendf(nil, "bucket%d", of)
				}
				got, want := backendtest.Ask(t, g, check), backendtest.Ask(t, twin, check)
				known := got.Source == backend.FromDenyCache
				if got.Allowed != want.Allowed || !known && got != want || known && !validRetry(got, want) {
					t.Fatalf("seed %d, step %d: %+v\ngot  %+v\nwant %+v", seed, step, check, got, want)
				}
				if r.IntN(20) == 0 {
					_ = g.Reset(t.Context(), check.Key)
					_ = twin.Reset(t.Context(), check.Key)
				}
				time.Sleep(time.Duration(r.ExpFloat64() * float64(100*time.Millisecond)))
			}
			if st := g.Stats(); st.DenyCacheLookups < st.DenyCacheHits || seed == 0 && st.DenyCacheLookups == 0 {
				t.Errorf("%d checks were looked up in the cache, and %d of them found", st.DenyCacheLookups, st.DenyCacheHits)
			}
			if seed == 0 && g.Stats().DenyCacheHits == 0 {
				t.Error("no denial came from the cache: the test proves nothing")
			}
		})
	}
}

// validRetry reports whether the RetryIn of a cached denial is above 0 and not longer than the store's, or Never exactly
// if the store says Never. It may be shorter than the store's, because the cached denial may be one of fewer hits.
func validRetry(got, want backend.Decision) bool {
	if got.RetryIn == backend.Never || want.RetryIn == backend.Never {
		return got.RetryIn == want.RetryIn
	}
	return got.RetryIn > 0 && got.ResetIn >= 0 && got.RetryIn <= want.RetryIn+time.Microsecond // the precision of stores
}

func TestDenyCacheIsBounded(t *testing.T) {
	testGuard(t, Config{}, func(t *testing.T, g *Guard, _ *countingStore) { // all at the same instant, so that no denial expires
		blocked := perMinute(t, 0)
		for i := range denialShards * minDenials * 5 / 4 {
			backendtest.Ask(t, g, count(fmt.Sprint(i), blocked, 1))
		}
		if n := g.Stats().DenyCacheKeys; n > denialShards*minDenials || n < denialShards*minDenials/2 {
			t.Errorf("%d denials are kept, want about, and at most, %d: requests choose the keys", n, denialShards*minDenials)
		}
	})
}

func TestGuardAllocatesNothingWhenTheStoreDecides(t *testing.T) {
	g := New(newStore(t), Config{})
	checks := []backend.Check{count("k", perMinute(t, 1<<30), 1), count("l", perMinute(t, 1<<30), 1)}
	out := make([]backend.Decision, len(checks))
	if n := testing.AllocsPerRun(1000, func() {
		if err := g.Decide(context.Background(), checks, out); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("Decide allocates %v times; it is on the path of every request", n)
	}
}

// LOCAL_CACHE_SIZE_IN_BYTES keeps the same checks from Redis as envoyproxy/ratelimit's local cache: a full window stays
// full until it ends, for any number of hits.
func TestFixedWindowDenialsAreCachedUntilReset(t *testing.T) {
	testGuard(t, Config{FixedWindowBytes: 1}, func(t *testing.T, g *Guard, store *countingStore) {
		time.Sleep(20 * time.Second) // a bubble begins at midnight
		limits := limitOf(t, 10, descriptors.Minute, descriptors.FixedWindow)
		backendtest.Ask(t, g, count("k", limits, 9))
		if d := backendtest.Ask(t, g, count("k", limits, 3)); d.Allowed || d.Source != backend.FromStore {
			t.Fatalf("the first hits above the limit got %+v; want a denial by the store, which counts them", d)
		}
		for _, wait := range []time.Duration{0, 2 * time.Second, 37 * time.Second} {
			time.Sleep(wait)
			d := backendtest.Ask(t, g, count("k", limits, 1))
			if d.Allowed || d.Source != backend.FromDenyCache || d.Before != 12 || d.RetryIn <= 0 || d.RetryIn > 40*time.Second {
				t.Errorf("%v later in the window 1 hit got %+v; want the cached denial, after all 12 hits, until the window ends", wait, d)
			}
		}
		time.Sleep(2 * time.Second)
		if d := backendtest.Ask(t, g, count("k", limits, 1)); !d.Allowed {
			t.Errorf("in the next window 1 hit got %+v; want it to pass", d)
		}
	})
}

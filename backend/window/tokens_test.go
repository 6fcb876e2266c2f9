package window_test

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// bucket is n a window, with a burst of its own.
func bucket(t *testing.T, n, burst uint64, u descriptors.Unit, times uint32) descriptors.Limit {
	t.Helper()
	l, err := backendtest.NewLimit(t, n, u, times, descriptors.TokenBucket, 0).WithBurst(burst)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// anyBucket draws token buckets of all sizes, up to those that doubles can hardly tell.
func anyBucket(t *testing.T, r *rand.Rand) descriptors.Limit {
	n := 1 + r.Uint64N(1<<r.IntN(53))
	u := descriptors.Unit(1 + r.IntN(7))
	return bucket(t, n, 1+r.Uint64N(min(descriptors.MaxBurst, 8*n)), u, 1+r.Uint32N(200))
}

func TestReadmeTokenBucketExampleHolds(t *testing.T) {
	l := bucket(t, 60, 20, descriptors.Hour, 1)
	s, limits := new(window.States), []descriptors.Limit{l}
	for _, step := range []struct {
		at             string
		hits           uint64
		before         uint64
		remaining      uint64
		resetIn, retry time.Duration
	}{
		{"10:58:30", 2, 0, 18, time.Minute, 0},
		{"11:00:05", 3, 1, 16, 25 * time.Second, 0},
		{"11:00:40", 1, 3, 16, 50 * time.Second, 0},
		{"11:02:10", 5, 3, 12, 20 * time.Second, 0},
		{"11:02:10", 15, 8, 0, 2*time.Minute + 20*time.Second, 2*time.Minute + 20*time.Second},
	} {
		now, err := time.Parse(time.DateTime, "2025-10-09 "+step.at)
		if err != nil {
			t.Fatal(err)
		}
		v := charge(s, limits, step.hits, descriptors.ChargeByAlgorithm, window.At(now))
		want := backend.Decision{Allowed: step.retry == 0, Before: step.before, Remaining: step.remaining, ResetIn: step.resetIn, RetryIn: step.retry}
		if v != want {
			t.Fatalf("%d hits at %s:\ngot  %+v\nwant %+v", step.hits, step.at, v, want)
		}
	}
}

// Whatever the numbers, the moment that Until tells is the first one, to the microsecond.
func TestUntilIsExactForTokenBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	for range *steps / 10 {
		l := anyBucket(t, r)
		s := window.NewState(&l).(*window.Tokens)
		now := noon + window.Instant(r.Int64N(1e12))
		for range 1 + r.IntN(3) {
			s.Add(now, int64(1+r.Uint64N(2*l.Burst)))
			now += window.Instant(r.Int64N(int64(micros(l.Window))))
		}
		sum := s.Sum(now)
		if sum == 0 {
			continue
		}
		keep := r.Uint64N(sum)
		first := s.Until(now, keep)
		if first == window.MaxCount {
			continue
		}
		early, then := *s, *s
		if got := then.Sum(first); got > keep {
			t.Fatalf("%v: %d hits count at %d, where at most %d were to", l, got, first, keep)
		}
		if got := early.Sum(first - 1); got <= keep {
			t.Fatalf("%v: %d hits count a microsecond before %d already, and the wait was for %d", l, got, first, keep)
		}
	}
}

// Charges at uneven moments neither lose nor win: with the same leak reckoned in fractions the level is the same, but that
// a hit may leak a microsecond beside its moment where doubles cannot tell.
func TestTokenBucketDoesNotDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 200 {
		l := anyBucket(t, r)
		s, begin := window.NewState(&l), noon+window.Instant(r.Int64N(1e12))
		s.Add(begin, 1<<40)
		now, added := begin, uint64(1<<40)
		for range 500 {
			now += window.Instant(r.Int64N(int64(micros(l.Window))/400 + 2))
			leaked := new(big.Int).Mul(big.NewInt(int64(now-begin)), new(big.Int).SetUint64(l.Requests))
			least, most := new(big.Int).Set(leaked), new(big.Int).Set(leaked)
			slack := new(big.Int).SetUint64(2 * l.Requests) // what leaks in two microseconds
			least.Sub(least, slack).Quo(least, big.NewInt(int64(micros(l.Window))))
			most.Add(most, slack).Quo(most, big.NewInt(int64(micros(l.Window))))
			if most.Cmp(new(big.Int).SetUint64(added)) >= 0 {
				break
			}
			sum := s.Sum(now)
			if gone := new(big.Int).SetUint64(added - sum); gone.Cmp(least) < 0 || gone.Cmp(most) > 0 {
				t.Fatalf("%v: %v hits have leaked after %d µs, want %v to %v", l, gone, now-begin, least, most)
			}
			s.Add(now, 1)
			added++
		}
	}
}

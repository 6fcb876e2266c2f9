package window_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

const noon = window.Instant(1_763_726_400_000_000) // 2025-11-21 12:00:00 UTC, the start of a minute and of an hour

// charge counts hits, or denies them.
func charge(s *window.States, limits []descriptors.Limit, hits uint64, by descriptors.Charge, now window.Instant) backend.Decision {
	d, _ := s.Decide(&backend.Check{Limits: limits, Hits: hits, Charge: by}, now, nil)
	return d
}

// states are empty states of these limits.
func states(limits []descriptors.Limit) []window.State {
	all := make([]window.State, len(limits))
	for i := range limits {
		all[i] = window.NewState(&limits[i])
	}
	return all
}

func TestDecideChargesAllLimitsOrNone(t *testing.T) {
	limits := []descriptors.Limit{
		backendtest.NewLimit(t, 2, descriptors.Minute, 1, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 3, descriptors.Hour, 1, descriptors.SlidingWindow, 0),
		backendtest.NewLimit(t, 9, descriptors.Day, 1, descriptors.FixedWindow, 0),
	}
	counts := states(limits)
	for i, want := range []bool{true, true, false, false} {
		if v := window.Decide(counts, &backend.Check{Limits: limits, Hits: 1}, noon); v.Allowed != want || v.Strictest != 0 {
			t.Fatalf("hit %d: %+v; want allowed = %v, decided by the minute", i+1, v, want)
		}
	}
	for i, want := range []uint64{2, 2, 4} {
		if got := counts[i].Sum(noon); got != want {
			t.Errorf("%v holds %d hits, want %d: a denied check counts only where the charge is always", limits[i], got, want)
		}
	}
	later := noon.Plus(2 * time.Minute)
	v := window.Decide(counts, &backend.Check{Limits: limits, Hits: 2}, later)
	if v.Allowed || v.Strictest != 1 || v.Before != 2 {
		t.Errorf("two more hits after the minute: %+v; want them denied by the hour, which holds 2 of 3", v)
	}
}

// The strictest is the denying limit with the longest wait. A limit that admitted the denied check and charged it may
// be full now: the wait is its own then, the verdict is not.
func TestStrictestDeniesWithTheLongestWait(t *testing.T) {
	of := func(n uint64, u descriptors.Unit, a descriptors.Algorithm) descriptors.Limit {
		return backendtest.NewLimit(t, n, u, 1, a, 0)
	}
	for name, tc := range map[string]struct {
		limits    []descriptors.Limit
		held      []int64
		strictest int
		wait      time.Duration
	}{
		"two deny, one has room": {[]descriptors.Limit{of(1, descriptors.Minute, descriptors.SlidingWindow),
			of(1, descriptors.Hour, descriptors.SlidingWindow), of(7, descriptors.Day, descriptors.SlidingWindow)},
			[]int64{1, 1, 1}, 1, time.Hour + time.Minute},
		"one denies, the other is filled": {[]descriptors.Limit{of(1, descriptors.Minute, descriptors.FixedWindow),
			of(2, descriptors.Hour, descriptors.FixedWindow)}, []int64{1, 1}, 0, time.Hour},
		"two deny, the third is filled": {[]descriptors.Limit{of(10, descriptors.Day, descriptors.FixedWindow),
			of(1, descriptors.Minute, descriptors.FixedWindow), of(1, descriptors.Hour, descriptors.FixedWindow)},
			[]int64{9, 1, 1}, 2, 12 * time.Hour},
	} {
		counts := states(tc.limits)
		for i, hits := range tc.held {
			counts[i].Add(noon, hits)
		}
		v := window.Decide(counts, &backend.Check{Limits: tc.limits, Hits: 1}, noon)
		if v.Allowed || v.Strictest != tc.strictest || v.Before != 1 || v.RetryIn != tc.wait || v.ResetIn != tc.wait {
			t.Errorf("%s: %+v; want limit %d, which held 1, and a wait of %v", name, v, tc.strictest, tc.wait)
		}
	}
}

// Of limits with nothing left the last to have room tells when the next request fits.
func TestFullLimitsShowTheLongestReset(t *testing.T) {
	for _, a := range descriptors.Algorithms() {
		limits := []descriptors.Limit{backendtest.NewLimit(t, 5, descriptors.Minute, 1, a, 0),
			backendtest.NewLimit(t, 5, descriptors.Hour, 1, a, 0), backendtest.NewLimit(t, 9, descriptors.Day, 1, a, 0)}
		counts, wait := states(limits), limits[1].Window+limits[1].Precision
		if a == descriptors.TokenBucket {
			wait /= 5
		}
		v := window.Decide(counts, &backend.Check{Limits: limits, Hits: 5}, noon)
		if !v.Allowed || v.Strictest != 1 || v.Remaining != 0 || v.ResetIn != wait {
			t.Errorf("five hits of 5/minute, 5/hour and 9/day by %v: %+v; want the hour's reset, %v", a, v, wait)
		}
	}
}

// The wait is exact, after a denial and after what filled a limit: a check of the same size fits after it, and not a
// microsecond before.
func TestRetryInAndNextInAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 20_000 {
		limits := []descriptors.Limit{backendtest.RandomLimit(r, descriptors.Algorithms()...), backendtest.RandomLimit(r, descriptors.SlidingWindow)}
		if limits[0].SameState(&limits[1]) {
			continue // no check has such limits
		}
		states, now := new(window.States), noon
		for range 30 {
			now = max(0, now+backendtest.RandomMove(r, limits, 5))
			hits := 1 + r.Uint64N(4)
			v := charge(states, limits, hits, descriptors.ChargeAdmitted, now)
			wait := max(v.RetryIn, v.NextIn)
			if wait == 0 || wait == backend.Never {
				continue
			}
			after := now.Plus(wait)
			if early := charge(states, limits, hits, descriptors.ChargeAdmitted, after-1); early.Allowed {
				t.Fatalf("%v: told to wait %v, admitted a microsecond earlier", limits, wait)
			}
			if late := charge(states, limits, hits, descriptors.ChargeAdmitted, after); !late.Allowed {
				t.Fatalf("%v: denied after waiting the %v that it was told", limits, wait)
			}
			now = after
		}
	}
}

package backendtest

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// neverOver: in no half-open interval as long as its window do the hits admitted, less refunds, exceed a limit. It is
// enough to look back from each admission. For a token bucket that is so in any interval, with its burst beside what
// leaks in the interval.
func neverOver(t *testing.T, s *step) {
	if s.check.Op != backend.Count || !s.got.Allowed {
		return
	}
	for i := range s.check.Limits {
		l := &s.check.Limits[i]
		if l.Algorithm == descriptors.FixedWindow || s.check.Charge.Always(l) {
			continue
		}
		if l.Algorithm == descriptors.TokenBucket {
			if s.model.logs[i].overflows(l) {
				t.Fatalf("%v with a burst of %d admitted more than that and what leaked meanwhile", l, l.Burst)
			}
			continue
		}
		if held := s.model.logs[i].least(); held > l.Requests {
			t.Fatalf("%v: the last window holds %d admitted hits", l, held)
		}
	}
}

// soonBack: an admitted hit stops counting at most one precision after it is a window old, and not before.
func soonBack(t *testing.T, s *step) { s.model.check(t, s.now) }

// bounded: a key holds no more buckets than can count, and no more than hits; these are N where only admitted ones
// count.
func bounded(t *testing.T, s *step) {
	s.model.check(t, s.now)
	var most, hits uint64
	for i := range s.check.Limits {
		l := &s.check.Limits[i]
		sum := s.model.counts[i].Sum(s.now)
		hits += sum
		switch l.Algorithm {
		case descriptors.FixedWindow, descriptors.TokenBucket:
			most++
		case descriptors.SlidingLog:
			most += sum
		default:
			most += uint64((l.Window+l.Precision-1)/l.Precision) + 1
		}
	}
	if held := uint64(s.store.Buckets(s.check.Key, s.check.Limits)); held > min(most, hits) {
		t.Fatalf("%v: the key holds %d buckets for %d hits; at most %d can count", s.check.Limits, held, hits, most)
	}
}

// deniedChangesNothing: after a denial the same check gives the same answer again, and no bucket came or went, for
// limits that charge what they admit.
func deniedChangesNothing(t *testing.T, s *step) {
	if s.got.Allowed || s.check.Op != backend.Count || s.check.ChargesAlways() {
		return
	}
	buckets := s.store.Buckets(s.check.Key, s.check.Limits)
	if again := Ask(t, s.store.Counter, s.check); again != s.got {
		t.Fatalf("a check was denied with\n%+v, and asked again at the same moment with\n%+v: the denial changed something",
			s.got, again)
	}
	if now := s.store.Buckets(s.check.Key, s.check.Limits); now != buckets {
		t.Fatalf("a denied check left %d buckets where there were %d", now, buckets)
	}
	for i := range s.check.Limits {
		one := s.check
		one.Limits, one.Op = s.check.Limits[i:i+1], backend.Look
		if got, want := Ask(t, s.store.Counter, one).Before, s.model.counts[i].Sum(s.now); got != want {
			t.Fatalf("after a denial %v counts %d hits, want %d: none of the limits may count it", s.check.Limits[i], got, want)
		}
	}
}

// oneClock: whatever the clock did, no denial lasts longer than a window and a precision from now, or than a token
// bucket takes until it is empty.
func oneClock(t *testing.T, s *step) {
	if s.got.Allowed || s.got.RetryIn == backend.Never {
		return
	}
	var longest time.Duration
	for i := range s.check.Limits {
		l := &s.check.Limits[i]
		longest = max(longest, l.Window+l.Precision)
		if l.Algorithm == descriptors.TokenBucket {
			longest = max(longest, drained(l, s.model.counts[i].Sum(s.now)))
		}
	}
	if s.got.RetryIn > longest || s.got.RetryIn <= 0 {
		t.Fatalf("%v: denied for %v; all that counts is gone in %v", s.check.Limits, s.got.RetryIn, longest)
	}
}

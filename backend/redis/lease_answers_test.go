package redis

import (
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/descriptors"
)

// old is an answer and its time.
type old struct {
	at time.Time
	backend.Decision
}

// TestLeaseAnswersAreUnderASecondOld has one replica answer by a lease while another uses up the limit.
func TestLeaseAnswersAreUnderASecondOld(t *testing.T) {
	for name, limits := range rulesThatLease(t) {
		t.Run(name, func(t *testing.T) {
			l, here, there := still(t)
			l.limits = limits
			check := backend.Check{Key: l.key, Limits: limits, Charge: descriptors.ChargeAdmitted, Leases: true, Rate: 200}
			asks := func(w *leasingWeir, op backend.Op, hits uint64) backend.Decision {
				check.Op, check.Hits = op, hits
				return backendtest.Ask(t, w.guard, check)
			}
			asks(here, backend.Count, 1)
			truths := []old{{l.now, asks(here, backend.Look, 0)}} // to a look, the unused hits of the lease remain
			wrong, worst, from, byLease := 0, old{}, old{}, 0
			for i := range 40 {
				if i < 20 {
					asks(there, backend.Count, 40)
				}
				truths = append(truths, old{l.now, asks(here, backend.Look, 0)})
				told := asks(here, backend.Count, 1)
				if told.Source == backend.FromLease {
					byLease++
					if !toldWithin(truths, told, l.now.Add(-time.Second)) {
						wrong++
						worst, from = old{l.now, told}, truths[len(truths)-1]
					}
				}
				truths = append(truths, old{l.now, asks(here, backend.Look, 0)})
				l.passes(100 * time.Millisecond)
			}
			if byLease == 0 {
				t.Error("no answer was a lease's: the test proves nothing")
			}
			if wrong > 0 {
				t.Errorf("%d of %d answers by leases tell what was not so in the last second; the last one says that %d remain after %d, "+
					"where %d remained after %d, and the limit to be whole in %v, where it is in %v", wrong, byLease, worst.Remaining,
					worst.Before, from.Remaining, from.Before, worst.ResetIn, from.ResetIn)
			}
		})
	}
}

// toldWithin reports whether an answer to a count of one hit lies between the lowest and the highest truth since a time.
func toldWithin(truths []old, told backend.Decision, since time.Time) bool {
	now := truths[len(truths)-1].at
	within := func(of func(d backend.Decision) int64, told int64) bool {
		var all []int64
		for _, truth := range truths {
			if !truth.at.Before(since) {
				truth.ResetIn += truth.at.Sub(now)
				all = append(all, of(truth.Decision))
			}
		}
		return slices.Min(all) <= told && told <= slices.Max(all)
	}
	return within(func(d backend.Decision) int64 { return int64(d.Remaining) }, int64(told.Remaining)+1) &&
		within(func(d backend.Decision) int64 { return int64(d.Before) }, int64(told.Before)) &&
		within(func(d backend.Decision) int64 { return int64(d.ResetIn) }, int64(told.ResetIn))
}

// TestDenialWaitsForUnusedLeases has one replica lease and go quiet, and another find the limit reached. Its denials
// must name the time when the unused hits are due back, not when the window has passed.
func TestDenialWaitsForUnusedLeases(t *testing.T) {
	for name, limits := range rulesThatLease(t) {
		t.Run(name, func(t *testing.T) {
			l, here, there := still(t)
			l.limits = limits
			check := backend.Check{Key: l.key, Limits: limits, Hits: 1, Charge: descriptors.ChargeAdmitted, Leases: true, Rate: 200}
			backendtest.Ask(t, here.guard, check)
			var denials []old
			began := l.now
			for l.now.Sub(began) < 70*time.Second {
				d := backendtest.Ask(t, there.guard, check)
				if d.Allowed && len(denials) > 0 {
					break
				}
				if !d.Allowed {
					denials = append(denials, old{l.now, d})
					l.passes(100 * time.Millisecond)
				}
				if passed := l.now.Sub(began); passed == 61*time.Second { // after the longest lease
					backendtest.Ask(t, here.guard, check)
				}
			}
			if len(denials) == 0 {
				t.Fatal("nothing was denied: the test proves nothing")
			}
			late, last := 0, denials[len(denials)-1]
			for _, d := range denials {
				if d.RetryIn > l.now.Sub(d.at)+2*time.Second {
					late++
				}
			}
			if late > 0 {
				t.Errorf("%d of %d denials say to come back more than two seconds too late; the last one in %v, where that was to be in %v",
					late, len(denials), last.RetryIn, l.now.Sub(last.at))
			}
		})
	}
}

// TestLeaseEndsWhenTheClockStepsForward steps the clock of the server two hours forward while a lease is out. Its hits
// no longer count, so a second later it must admit nothing.
func TestLeaseEndsWhenTheClockStepsForward(t *testing.T) {
	for name, limits := range rulesThatLease(t) {
		t.Run(name, func(t *testing.T) {
			l, here, there := still(t)
			l.limits = limits
			check := backend.Check{Key: l.key, Limits: limits, Hits: 1, Charge: descriptors.ChargeAdmitted, Leases: true, Rate: 200}
			backendtest.Ask(t, here.guard, check)
			l.shift = 2 * time.Hour
			l.passes(1100 * time.Millisecond)
			used := uint64(0)
			for misses := 0; misses < 2; { // until both are denied
				misses = 0
				for _, w := range []*leasingWeir{there, here} {
					if backendtest.Ask(t, w.guard, check).Allowed {
						used++
					} else {
						misses++
					}
				}
			}
			if most := limits[len(limits)-1].Requests; used > most {
				t.Errorf("%d hits pass later than a second after the step; want at most %d", used, most)
			}
		})
	}
}

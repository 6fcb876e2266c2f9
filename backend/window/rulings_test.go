package window_test

import (
	"math/rand/v2"
	"testing"

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

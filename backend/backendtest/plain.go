package backendtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// RunPlain puts stores to that part of the test which holds for keys of envoyproxy/ratelimit: they count under one limit,
// a fixed window of one unit that charges always. A clock that steps back finds the count of an earlier window there, so
// it does not.
func RunPlain(t *testing.T, open func(t *testing.T) Store, o Options) {
	o.plain = true
	for _, promise := range promises {
		promise.backwards = 0
		t.Run(promise.name, func(t *testing.T) {
			walk(t, open(t), promise, o.Steps/len(promises), o)
		})
	}
	fixed := descriptors.FixedWindow
	t.Run("RetryInIsExact", func(t *testing.T) { retry(t, open(t), algorithms, o.Steps/len(promises), o) })
	t.Run("Rulings", func(t *testing.T) { testPlainRulings(t, open) })
	t.Run("ClassicExample", func(t *testing.T) { testClassicExample(t, open(t), fixed) })
	t.Run("TheNumberMayChange", func(t *testing.T) { testChangedPlainNumber(t, open(t)) })
	t.Run("AnEmptyWindowTellsItsEnd", func(t *testing.T) { testEmptyPlainWindow(t, open(t)) })
	t.Run("SameKeyTwiceIsChargedTwice", func(t *testing.T) { testSameKeyTwice(t, open(t), fixed) })
}

// plainRule draws one limit of few requests.
func plainRule(t *testing.T, r *rand.Rand) rule {
	t.Helper()
	charges := []descriptors.Charge{descriptors.ChargeByAlgorithm, descriptors.ChargeAlways}
	l := NewLimit(t, r.Uint64N(12), descriptors.Unit(1+r.IntN(7)), 1, descriptors.FixedWindow, 0)
	return rule{limits: []descriptors.Limit{l}, charge: charges[r.IntN(len(charges))]}
}

// testChangedPlainNumber: a limit that is raised or lowered keeps its count.
func testChangedPlainNumber(t *testing.T, s Store) {
	s.SetTime(start)
	for i, step := range []struct {
		n       uint64
		allowed bool
	}{{2, true}, {2, true}, {2, false}, {5, true}, {5, true}, {3, false}, {0, false}, {8, true}} {
		d := s.decide(t, backend.Check{Key: []byte("key"), Hits: 1,
			Limits: []descriptors.Limit{NewLimit(t, step.n, descriptors.Hour, 1, descriptors.FixedWindow, 0)}})
		if d.Allowed != step.allowed || d.Before != uint64(i) {
			t.Fatalf("check %d, under %d an hour: %+v; want allowed = %v at a count of %d", i+1, step.n, d, step.allowed, i)
		}
	}
}

// testEmptyPlainWindow looks and refunds where nothing counts.
func testEmptyPlainWindow(t *testing.T, s Store) {
	s.SetTime(window.At(time.Date(2026, 11, 21, 12, 0, 41, 250e6, time.UTC)))
	limits := []descriptors.Limit{NewLimit(t, 5, descriptors.Minute, 1, descriptors.FixedWindow, 0)}
	for name, op := range map[string]backend.Op{"look": backend.Look, "refund": backend.Refund} {
		for range 2 {
			d := s.decide(t, backend.Check{Key: []byte(name), Limits: limits, Op: op, Hits: 2})
			if want := (backend.Decision{Allowed: true, Remaining: 5, ResetIn: 18750 * time.Millisecond}); d != want {
				t.Errorf("a %s at a key that nobody knows: %+v; want %+v", name, d, want)
			}
		}
	}
}

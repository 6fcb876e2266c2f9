package backendtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// RunPlain puts stores to that part of the test which holds for keys of envoyproxy/ratelimit: they count under one
// limit, a fixed window of one unit that charges always. A clock that steps back finds the count of an earlier window
// there, so it does not.
func RunPlain(t *testing.T, open func(t *testing.T) Store, o Options) {
	t.Run("EachStepIsTheModels", func(t *testing.T) {
		walk(t, open(t), promise{"plain", 0, plainRule, oneClock}, o.Steps, o)
	})
	t.Run("SameKeyTwiceIsChargedTwice", func(t *testing.T) { testSameKeyTwice(t, open(t), descriptors.FixedWindow) })
}

// plainRule draws one limit of few requests.
func plainRule(r *rand.Rand) rule {
	drawn := randomRule(r, []descriptors.Algorithm{descriptors.FixedWindow})
	l := drawn.limits[0]
	l.Multiplier, l.Window = 1, l.Unit.Duration()
	return rule{limits: []descriptors.Limit{l}, charge: []descriptors.Charge{0, descriptors.ChargeAlways}[r.IntN(2)]}
}

// testPlainRulings hold 5 a minute to what envoyproxy/ratelimit does: a denied hit counts, a look is over only above the
// limit, and each answer tells the rest of the window.
func testPlainRulings(t *testing.T, open func(t *testing.T) Store) {
	limit := NewLimit(t, 5, descriptors.Minute, 1, descriptors.FixedWindow, 0)
	runRulings(t, open, []ruling{
		{"hits up to the limit, then none, and all of them count", limit, []ask{
			{backend.Count, 3, 0, backend.Decision{Allowed: true, Remaining: 2, ResetIn: time.Minute, NextIn: time.Minute}},
			{backend.Count, 3, 0, backend.Decision{Before: 3, ResetIn: time.Minute, RetryIn: time.Minute}},
			{backend.Count, 1, 0, backend.Decision{Before: 6, ResetIn: time.Minute, RetryIn: time.Minute}},
		}},
		{"a look charges nothing, and is over above the limit", limit, []ask{
			{backend.Look, 0, 0, backend.Decision{Allowed: true, Remaining: 5, ResetIn: time.Minute}},
			{backend.Count, 5, 0, backend.Decision{Allowed: true, ResetIn: time.Minute, NextIn: time.Minute}},
			{backend.Look, 0, 0, backend.Decision{Allowed: true, Before: 5, ResetIn: time.Minute}},
			{backend.Count, 1, 0, backend.Decision{Before: 5, ResetIn: time.Minute, RetryIn: time.Minute}},
			{backend.Look, 0, 0, backend.Decision{Before: 6, ResetIn: time.Minute, RetryIn: time.Minute}},
		}},
		{"a refund gives back what counts", limit, []ask{
			{backend.Refund, 2, 0, backend.Decision{Allowed: true, Remaining: 5, ResetIn: time.Minute}},
			{backend.Count, 5, 0, backend.Decision{Allowed: true, ResetIn: time.Minute, NextIn: time.Minute}},
			{backend.Refund, 2, 0, backend.Decision{Allowed: true, Before: 5, Remaining: 2, ResetIn: time.Minute}},
			{backend.Refund, 9, 0, backend.Decision{Allowed: true, Before: 3, Remaining: 5, ResetIn: time.Minute}},
		}},
		{"more than the limit at once never passes", limit, []ask{
			{backend.Count, 6, 0, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
			{backend.Count, 1, 0, backend.Decision{Before: 6, ResetIn: time.Minute, RetryIn: time.Minute}},
		}},
	})
}

package backendtest

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// testRulingsOfAFixedWindow holds 5 a minute to what envoyproxy/ratelimit does: a denied hit counts, a look is over
// only above the limit, and each answer tells the rest of the window.
func testRulingsOfAFixedWindow(t *testing.T, open func(t *testing.T) Store) {
	limit := NewLimit(t, 5, descriptors.Minute, 1, descriptors.FixedWindow, 0)
	testPlainRulings(t, open)
	runRulings(t, open, []ruling{
		{"more than the limit at once never passes, and counts nothing if only admitted hits count", limit, []ask{
			{backend.Count, 6, descriptors.ChargeAdmitted, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
			{backend.Count, 6, 0, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
		}},
	})
}

// testPlainRulings are those of a window that charges always.
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

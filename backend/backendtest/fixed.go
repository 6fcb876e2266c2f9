package backendtest

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
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

// testEmptyFixedWindow looks and refunds where nothing counts, in the middle of windows: on a key that nobody has asked
// about, on one that a refund has emptied, and on one whose window is over.
func testEmptyFixedWindow(t *testing.T, s Store) {
	at := func(minute, second, ms int) {
		s.SetTime(window.At(time.Date(2026, 11, 21, 12, minute, second, ms*1e6, time.UTC)))
	}
	fixed := NewLimit(t, 5, descriptors.Minute, 1, descriptors.FixedWindow, 0)
	hourly := NewLimit(t, 5, descriptors.Hour, 1, descriptors.FixedWindow, 0)
	loose := NewLimit(t, 9, descriptors.Hour, 1, descriptors.FixedWindow, 0)
	sliding := NewLimit(t, 5, descriptors.Day, 1, descriptors.SlidingWindow, 0)
	want := func(when string, op backend.Op, key string, reset time.Duration, limits ...descriptors.Limit) {
		t.Helper()
		d := s.decide(t, backend.Check{Key: []byte(key), Limits: limits, Op: op, Hits: 2})
		if !d.Allowed || d.Remaining != 5 || d.ResetIn != reset || d.RetryIn != 0 {
			t.Errorf("%s: %+v; want it allowed, 5 left and a reset in %v", when, d, reset)
		}
	}
	at(0, 41, 250)
	for name, op := range map[string]backend.Op{"a look": backend.Look, "a refund": backend.Refund} {
		want(name+" at a key that nobody knows", op, "unknown", 18750*time.Millisecond, fixed)
		want(name+" under two limits, the first of which is the strictest", op, "unknown", 18750*time.Millisecond, fixed, hourly)
		want(name+" under two limits, the second of which is the strictest", op, "unknown", 18750*time.Millisecond, loose, fixed)
		want(name+" where a sliding window is the strictest", op, "unknown", 0, loose, sliding)
		want(name+" where a sliding window has as much left as a fixed one, and comes first", op, "unknown", 0, sliding, fixed)
	}
	s.decide(t, backend.Check{Key: []byte("emptied"), Limits: []descriptors.Limit{fixed}, Hits: 2})
	want("a refund that leaves nothing", backend.Refund, "emptied", 18750*time.Millisecond, fixed)
	want("a look at what a refund has emptied", backend.Look, "emptied", 18750*time.Millisecond, fixed)
	s.decide(t, backend.Check{Key: []byte("over"), Limits: []descriptors.Limit{fixed}, Hits: 2})
	at(1, 0, 0)
	want("a look as the next window begins", backend.Look, "over", time.Minute, fixed)
	at(1, 59, 999)
	want("a look as it ends", backend.Look, "over", time.Millisecond, fixed)
	want("a refund as it ends", backend.Refund, "over", time.Millisecond, fixed)
}

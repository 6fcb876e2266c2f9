package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// testRulings are sequences of checks on one key of 5 a minute, at the start of a minute, by each of the algorithms.
func testRulings(t *testing.T, open func(t *testing.T) Store) {
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.SlidingLog, descriptors.TokenBucket} {
		t.Run(a.String(), func(t *testing.T) {
			limit := NewLimit(t, 5, descriptors.Minute, 1, a, 0)
			testRulingsOf(t, open, limit, func(hits int) time.Duration {
				if a == descriptors.TokenBucket { // one leaks every 12 s
					return time.Duration(hits) * 12 * time.Second
				}
				return limit.Window + limit.Precision
			})
		})
	}
	t.Run(descriptors.FixedWindow.String(), func(t *testing.T) {
		limit := NewLimit(t, 5, descriptors.Minute, 1, descriptors.FixedWindow, 0)
		testPlainRulings(t, open)
		runRulings(t, open, []ruling{
			{"more than the limit at once counts nothing if only admitted hits count", limit, []ask{
				{backend.Count, 6, descriptors.ChargeAdmitted, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
				{backend.Count, 6, 0, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
			}},
		})
	})
}

// testRulingsOf takes how long it is until so many hits have left that came at the start of a minute.
func testRulingsOf(t *testing.T, open func(t *testing.T) Store, limit descriptors.Limit, left func(hits int) time.Duration) {
	const always = descriptors.ChargeAlways
	runRulings(t, open, []ruling{
		{"hits up to the limit, then none", limit, []ask{
			{backend.Count, 3, 0, backend.Decision{Allowed: true, Remaining: 2, ResetIn: left(1), NextIn: left(1)}},
			{backend.Count, 3, 0, backend.Decision{Before: 3, ResetIn: left(1), RetryIn: left(1)}},
			{backend.Count, 4, 0, backend.Decision{Before: 3, ResetIn: left(2), RetryIn: left(2)}},
			{backend.Count, 2, 0, backend.Decision{Allowed: true, Before: 3, ResetIn: left(1), NextIn: left(2)}},
			{backend.Count, 1, 0, backend.Decision{Before: 5, ResetIn: left(1), RetryIn: left(1)}},
		}},
		{"a look charges nothing", limit, []ask{
			{backend.Look, 0, 0, backend.Decision{Allowed: true, Remaining: 5}},
			{backend.Count, 5, 0, backend.Decision{Allowed: true, ResetIn: left(1), NextIn: left(5)}},
			{backend.Look, 0, 0, backend.Decision{Before: 5, ResetIn: left(1), RetryIn: left(1)}},
		}},
		{"a refund gives back the newest", limit, []ask{
			{backend.Refund, 2, 0, backend.Decision{Allowed: true, Remaining: 5}},
			{backend.Count, 5, 0, backend.Decision{Allowed: true, ResetIn: left(1), NextIn: left(5)}},
			{backend.Refund, 2, 0, backend.Decision{Allowed: true, Before: 5, Remaining: 2, ResetIn: left(1)}},
			{backend.Refund, 9, 0, backend.Decision{Allowed: true, Before: 3, Remaining: 5}},
		}},
		{"more than the limit at once never passes", limit, []ask{
			{backend.Count, 6, 0, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
			{backend.Count, 1 << 63, 0, backend.Decision{ResetIn: time.Minute, RetryIn: backend.Never}},
			{backend.Count, 5, 0, backend.Decision{Allowed: true, ResetIn: left(1), NextIn: left(5)}},
			{backend.Count, 6, 0, backend.Decision{Before: 5, ResetIn: left(5), RetryIn: backend.Never}},
		}},
		{"a charge made always counts though denied", limit, []ask{
			{backend.Count, 4, always, backend.Decision{Allowed: true, Remaining: 1, ResetIn: left(1), NextIn: left(3)}},
			{backend.Count, 4, always, backend.Decision{Before: 4, ResetIn: left(7), RetryIn: left(7)}},
			{backend.Look, 0, 0, backend.Decision{Before: 8, ResetIn: left(4), RetryIn: left(4)}},
		}},
	})
}

// ruling is a sequence of checks on one key.
type ruling struct {
	name  string
	limit descriptors.Limit
	asks  []ask
}

type ask struct {
	op     backend.Op
	hits   uint64
	charge descriptors.Charge
	want   backend.Decision
}

func runRulings(t *testing.T, open func(t *testing.T) Store, table []ruling) {
	minute := window.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	for _, tc := range table {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t)
			s.SetTime(minute)
			for i, a := range tc.asks {
				c := backend.Check{Key: []byte("key"), Limits: []descriptors.Limit{tc.limit}, Op: a.op, Hits: a.hits, Charge: a.charge}
				if got := Ask(t, s.Counter, c); got != a.want {
					t.Fatalf("check %d:\ngot  %+v\nwant %+v", i+1, got, a.want)
				}
			}
		})
	}
}

func testSameKeyTwice(t *testing.T, s Store, a descriptors.Algorithm) {
	s.SetTime(start)
	limits := []descriptors.Limit{NewLimit(t, 3, descriptors.Minute, 1, a, 0)}
	c := backend.Check{Key: []byte("key"), Limits: limits, Hits: 2}
	var out [2]backend.Decision
	if err := backend.DecideAll(context.Background(), s.Counter, []backend.Check{c, c}, out[:]); err != nil {
		t.Fatal(err)
	}
	if !out[0].Allowed || out[1].Allowed || out[1].Before != 2 {
		t.Errorf("two checks of 2 hits of the same key under 3 a minute: %+v; want the first admitted, the second denied", out)
	}
}

// testStateFollowsTheLimit asks one key under one limit after the other: each algorithm, window and precision has a
// state of its own, which is kept under another number of requests, and while others are asked for.
func testStateFollowsTheLimit(t *testing.T, s Store) {
	s.SetTime(start)
	const minute, hour = descriptors.Minute, descriptors.Hour
	for i, step := range []struct {
		n         uint64
		unit      descriptors.Unit
		algorithm descriptors.Algorithm
		precision time.Duration
		allowed   bool
		before    uint64
	}{
		{10, minute, descriptors.SlidingWindow, 0, true, 0},
		{10, minute, descriptors.SlidingWindow, 0, true, 1},
		{1, minute, descriptors.SlidingWindow, 0, false, 2},
		{3, hour, descriptors.SlidingWindow, 0, true, 0},
		{3, hour, descriptors.SlidingWindow, time.Second, true, 0},
		{3, hour, descriptors.FixedWindow, 0, true, 0},
		{3, minute, descriptors.SlidingLog, 0, true, 0},
		{3, hour, descriptors.SlidingLog, 0, true, 0},
		{3, minute, descriptors.TokenBucket, 0, true, 0},
		{3, hour, descriptors.TokenBucket, 0, true, 0},
		{1, minute, descriptors.TokenBucket, 0, false, 1},
		{10, minute, descriptors.SlidingWindow, 0, true, 2},
		{1, minute, descriptors.SlidingLog, 0, false, 1},
	} {
		l := NewLimit(t, step.n, step.unit, 1, step.algorithm, step.precision)
		d := Ask(t, s.Counter, backend.Check{Key: []byte("key"), Limits: []descriptors.Limit{l}, Hits: 1})
		if d.Allowed != step.allowed || d.Before != step.before {
			t.Errorf("check %d, under %v by %v: %+v; want allowed = %v at a count of %d",
				i+1, l, l.Algorithm, d, step.allowed, step.before)
		}
	}
}

// testClassicExample asks two a minute at 0:40, 0:50, 1:10, 1:20 and 1:40.
func testClassicExample(t *testing.T, s Store) {
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for algorithm, want := range map[descriptors.Algorithm][]bool{
		descriptors.FixedWindow:   {true, true, true, true, false}, // counted always: the fifth is the third of its minute
		descriptors.SlidingWindow: {true, true, false, false, false},
		descriptors.SlidingLog:    {true, true, false, false, true},
		descriptors.TokenBucket:   {true, true, true, false, true}, // one leaks every 30 s, from 0:40 on
	} {
		var got []bool
		for _, second := range []int{40, 50, 70, 80, 100} {
			s.SetTime(window.At(midnight.Add(time.Duration(second) * time.Second)))
			d := Ask(t, s.Counter, backend.Check{Key: []byte(algorithm.String()), Hits: 1,
				Limits: []descriptors.Limit{NewLimit(t, 2, descriptors.Minute, 1, algorithm, 0)}})
			got = append(got, d.Allowed)
		}
		if !slices.Equal(got, want) {
			t.Errorf("two a minute by %v, asked at 0:40, 0:50, 1:10, 1:20, 1:40: %v, want %v", algorithm, got, want)
		}
	}
}

func testNoKey(t *testing.T, s Store, a descriptors.Algorithm) {
	s.SetTime(start)
	limits := []descriptors.Limit{NewLimit(t, 3, descriptors.Minute, 1, a, 0)}
	for _, c := range []backend.Check{
		{Op: backend.Look}, {Op: backend.Refund, Hits: 3}, {Hits: 4}, {Hits: 0},
	} {
		c.Key, c.Limits = fmt.Appendf(nil, "%d %d", c.Op, c.Hits), limits
		Ask(t, s.Counter, c)
		if n := s.Buckets(c.Key, c.Limits); n != 0 {
			t.Errorf("%+v left %d buckets behind; want none: it counted nothing", c, n)
		}
	}
}

// testManyClients lets 64 clients race for one key; the clock stands still.
func testManyClients(t *testing.T, s Store, a descriptors.Algorithm) {
	s.SetTime(start)
	const n = 1000
	limits := []descriptors.Limit{
		NewLimit(t, n, descriptors.Minute, 1, a, 0),
		NewLimit(t, 2*n, descriptors.Hour, 1, a, 0),
	}
	if lost := ExactlyN(t, 1, n, limits, s.Counter); lost > 0 {
		t.Errorf("%d checks had no answer", lost)
	}
}

func testMisuse(t *testing.T, s Store) {
	s.SetTime(start)
	limits := []descriptors.Limit{NewLimit(t, 3, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	for what, checks := range map[string][]backend.Check{
		"no key":            {{Limits: limits}},
		"no limit":          {{Key: []byte("key")}},
		"too few decisions": {{Key: []byte("key"), Limits: limits}, {Key: []byte("key"), Limits: limits}},
	} {
		if err := s.Counter.Decide(context.Background(), checks, make([]backend.Decision, 1)); err == nil {
			t.Errorf("%s: want an error, got none", what)
		}
	}
	if err := s.Counter.Close(); err != nil {
		t.Fatal(err)
	}
	check := []backend.Check{{Key: []byte("key"), Limits: limits}}
	if err := s.Counter.Decide(context.Background(), check, make([]backend.Decision, 1)); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v; want ErrClosed", err)
	}
}

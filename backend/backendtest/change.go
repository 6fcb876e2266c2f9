package backendtest

import (
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// testTurns: callers who ask by two numbers of requests in turns, as during a rolling update, or where requests bring a
// limit of their own, are admitted no less than by the smaller one alone, and no more than by the larger one.
func testTurns(t *testing.T, s Store, a descriptors.Algorithm) {
	const pause, span = 10 * time.Millisecond, 10 * time.Second
	var limits [2][]descriptors.Limit
	for i, n := range []uint64{600, 1200} {
		limits[i] = []descriptors.Limit{NewLimit(t, n, descriptors.Minute, 1, a, 0)}
		if a == descriptors.TokenBucket {
			limits[i][0].Burst = 10
		}
	}
	admitted := 0
	for step := range int(span / pause) {
		s.SetTime(start.Plus(time.Duration(step) * pause))
		if Ask(t, s.Counter, backend.Check{Key: []byte("key"), Limits: limits[step%2], Hits: 1, Charge: descriptors.ChargeAdmitted}).Allowed {
			admitted++
		}
	}
	least, most := 10+99, 10+200
	if a != descriptors.TokenBucket {
		least, most = 600, 1000
	}
	if admitted < least || admitted > most {
		t.Errorf("in %v %d hits were admitted by 600 and 1200 a minute in turns, want %d to %d", span, admitted, least, most)
	}
}

// testChangedWindow: a limit with another window begins anew. What the old one has counted lasts as long as it counts,
// for replicas that still ask for it, and no longer, however often the key is asked under the new one.
func testChangedWindow(t *testing.T, s Store, a descriptors.Algorithm) {
	noon := window.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	old := []descriptors.Limit{NewLimit(t, 10, descriptors.Minute, 1, a, 0)}
	next := []descriptors.Limit{NewLimit(t, 1000, descriptors.Hour, 1, a, 0)}
	ask := func(limits []descriptors.Limit, op backend.Op) backend.Decision {
		return Ask(t, s.Counter, backend.Check{Key: []byte("key"), Limits: limits, Op: op, Hits: 1})
	}
	s.SetTime(noon)
	for range 4 {
		ask(old, backend.Count)
	}
	for second := range 60 {
		s.SetTime(noon.Plus(time.Duration(second) * time.Second))
		if d := ask(next, backend.Count); d.Before != uint64(second) {
			t.Fatalf("hit %d under the new window: %+v; want it to count its own hits alone", second+1, d)
		}
	}
	s.SetTime(noon.Plus(time.Minute) - 1)
	if d := ask(old, backend.Look); d.Before != 4 {
		t.Errorf("in the last microsecond of their minute: %+v; want the 4 hits to count for who has the old configuration", d)
	}
	s.SetTime(noon.Plus(old[0].Window + old[0].Precision))
	ask(next, backend.Count)
	if n := s.Buckets([]byte("key"), old); n != 0 {
		t.Errorf("when the old window has passed: %d of its buckets are held; want their room back", n)
	}
	if d := ask(old, backend.Look); d.Before != 0 {
		t.Errorf("when the old window has passed: %+v; want none of its hits to count", d)
	}
}

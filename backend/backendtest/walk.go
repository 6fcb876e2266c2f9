package backendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// promise is one of the first five that a store keeps, and how it is seen at a step of a walk.
type promise struct {
	name string
	// backwards is how often, in a hundred steps, the clock steps back.
	backwards int
	rule      func(r *rand.Rand) rule
	kept      func(t *testing.T, s *step)
}

var promises = []promise{
	{"NeverOverInAnyWindow", 2, anyRule, neverOver},
	{"SoonBack", 0, anyRule, soonBack},
	{"Bounded", 2, anyRule, bounded},
	{"ADeniedCheckChangesNothing", 2, anyRule, deniedChangesNothing},
	{"OneClock", 20, anyRule, oneClock},
}

// step is one check of a walk, when it has been decided.
type step struct {
	store Store
	model *model
	check backend.Check
	now   window.Instant
	got   backend.Decision
}

// walk asks a store random checks under a random clock. After each of them the decision must be the model's, and the
// promise must hold.
func walk(t *testing.T, store Store, p promise, steps int, o Options) {
	r := rand.New(rand.NewPCG(o.Seed, uint64(len(p.name))))
	for round := 0; steps > 0; round++ {
		m := newModel(p.rule(r))
		key := fmt.Appendf(nil, "%s/%d", p.name, round)
		now := start + window.Instant(r.Int64N(1e12))
		for range min(steps, 200) {
			steps--
			now = max(0, now+RandomMove(r, m.rule.limits, p.backwards)) // no clock shows a time before 1970
			store.SetTime(now)
			c := m.draw(r, key)
			p.kept(t, &step{store: store, model: m, check: c, now: now, got: m.ask(t, store, c, now)})
			now = max(now, m.gone(now, o.Patience))
		}
	}
}

// together are the algorithms whose limits a check may put together.
var together = [][]descriptors.Algorithm{
	{descriptors.SlidingWindow},
	{descriptors.FixedWindow},
	{descriptors.SlidingWindow, descriptors.FixedWindow},
	{descriptors.SlidingLog},
	{descriptors.TokenBucket},
	{descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.TokenBucket},
}

// anyRule draws limits by algorithms that a check may put together.
func anyRule(r *rand.Rand) rule { return randomRule(r, together[r.IntN(len(together))]) }

// randomRule draws one to three limits by some algorithms, of few requests, so that all verdicts come up, and how they
// are charged.
func randomRule(r *rand.Rand, algorithms []descriptors.Algorithm) rule {
	charges := []descriptors.Charge{descriptors.ChargeByAlgorithm, descriptors.ChargeByAlgorithm, descriptors.ChargeAdmitted,
		descriptors.ChargeAlways}
	out := rule{charge: charges[r.IntN(len(charges))]}
	for want := 1 + r.IntN(3); len(out.limits) < want; {
		l := RandomLimit(r, algorithms...)
		if !slices.ContainsFunc(out.limits, func(taken descriptors.Limit) bool { return taken.SameState(&l) }) {
			out.limits = append(out.limits, withAnyBurst(r, l))
		}
	}
	return out
}

// RandomLimit draws a limit by one of some algorithms, with any precision that is allowed for it.
func RandomLimit(r *rand.Rand, algorithms ...descriptors.Algorithm) descriptors.Limit {
	precisions := []time.Duration{0, 0, 0, 50 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	for {
		algorithm, precision := algorithms[r.IntN(len(algorithms))], time.Duration(0)
		if algorithm == descriptors.SlidingWindow {
			precision = precisions[r.IntN(len(precisions))]
		}
		l, err := descriptors.NewLimit(r.Uint64N(12), descriptors.Unit(1+r.IntN(7)), 1+r.Uint32N(4), algorithm, precision)
		if err == nil {
			return l
		}
	}
}

// withAnyBurst gives most token buckets another size.
func withAnyBurst(r *rand.Rand, l descriptors.Limit) descriptors.Limit {
	if l.Burst > 0 && r.IntN(3) > 0 {
		l.Burst = 1 + r.Uint64N(20)
	}
	return l
}

// changed gives one of the limits another number of requests, now and then.
func changed(r *rand.Rand, limits []descriptors.Limit) []descriptors.Limit {
	if r.IntN(40) > 0 {
		return limits
	}
	limits = slices.Clone(limits)
	l := &limits[r.IntN(len(limits))]
	if l.Requests = r.Uint64N(12); l.Algorithm == descriptors.TokenBucket {
		l.Burst = l.Requests
		*l = withAnyBurst(r, *l)
	}
	return limits
}

// RandomMove returns how far the clock goes to the next step: mostly a fraction of a window, now and then far past it, and
// so many times in a hundred backwards.
func RandomMove(r *rand.Rand, limits []descriptors.Limit, backwards int) window.Instant {
	w := limits[r.IntN(len(limits))].Window.Microseconds()
	switch n := r.IntN(100); {
	case n < backwards:
		return -window.Instant(r.Int64N(w))
	case n < backwards+3:
		return window.Instant(w + r.Int64N(w))
	case n < backwards+20:
		return 0
	}
	return window.Instant(r.Int64N(w/8 + 1))
}

// randomOp draws what a check does, with hits of all sizes.
func randomOp(r *rand.Rand, n uint64) (backend.Op, uint64) {
	hits := 1 + r.Uint64N(3)
	switch r.IntN(40) {
	case 0:
		hits = n
	case 1:
		hits = n + 1
	case 2:
		hits = r.Uint64()
	case 3:
		hits = 0
	}
	switch r.IntN(10) {
	case 0:
		return backend.Refund, hits
	case 1:
		return backend.Look, 0
	}
	return backend.Count, hits
}

// testLongLog walks with logs of hundreds of instants, and with checks that take and give back many at once. The clock
// steps back in the first half, and jumps past a window in the second.
func testLongLog(t *testing.T, s Store) {
	const steps = 1500
	r := rand.New(rand.NewPCG(23, 24))
	m := newModel(rule{limits: []descriptors.Limit{
		NewLimit(t, 400, descriptors.Hour, 1, descriptors.SlidingLog, 0),
		NewLimit(t, 900, descriptors.Day, 1, descriptors.SlidingLog, 0),
	}})
	now := start
	for n := range steps {
		now += window.Instant(r.Int64N(20e6))
		switch {
		case n < steps/2 && r.IntN(30) == 0:
			now -= window.Instant(r.Int64N(120e6))
		case n > steps/2 && r.IntN(100) == 0:
			now += window.Instant(r.Int64N(7200e6))
		}
		s.SetTime(now)
		c := backend.Check{Key: []byte("long"), Limits: m.rule.limits}
		if c.Op, c.Hits = randomOp(r, r.Uint64N(400)); n%400 == 399 {
			c.Op, c.Hits = backend.Refund, 300
		}
		m.ask(t, s, c, now)
	}
}

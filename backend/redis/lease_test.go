package redis

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

var leaseRounds = flag.Int("leases", 0,
	"rounds of the walk of weirs that lease, of 1,000 steps each; 0: a hundred, few in the short form or with the race detector")

// leaseWalks is how many rounds a walk has.
func leaseWalks() int {
	if *leaseRounds == 0 && (testing.Short() || process.Raced()) {
		return 12
	}
	return cmp.Or(*leaseRounds, 100)
}

// Weirs that lease, and that are killed, frozen, cut off and reconfigured, while one resets and others refund, admit no
// more than N in any window.
func TestLeasesNeverExceedTheLimit(t *testing.T) {
	t.Parallel()
	shard := new(atomic.Int64)
	store := opened(t, on(t, topology.Single), shard)
	used := uint64(0)
	for round := range leaseWalks() {
		r := rand.New(rand.NewPCG(*conformanceSeed, uint64(round)))
		l := &leasing{t: t, r: r, store: store, shard: shard, key: fmt.Appendf(nil, "leases/%d/%d", *conformanceSeed, round),
			now: time.Unix(1_796_000_000+r.Int64N(1e6), r.Int64N(1e9)), limits: leasableLimits(t, r), steps: r.IntN(3) == 0,
			load: []uint64{10, 20, 40, 60}[r.IntN(4)]}
		for range 2 + r.IntN(3) {
			l.weirs = append(l.weirs, l.open())
		}
		l.passes(0)
		for range 1000 {
			l.move()
			l.step()
		}
		for _, w := range l.weirs {
			used += w.guard.Stats().LeaseUsed
		}
	}
	if used == 0 {
		t.Error("no hit was admitted by a lease: the test proves nothing")
	}
}

// leasableLimits draws a rule of one or two windows, mostly of few buckets, so that these leave often. They are so long
// that the server, which drops keys by its own clock, drops none while the test uses it.
func leasableLimits(t *testing.T, r *rand.Rand) []descriptors.Limit {
	n := uint64(10)
	for range r.IntN(5) {
		n *= 10
	}
	sliding := func(times uint32, u descriptors.Unit, precision time.Duration) descriptors.Limit {
		return backendtest.NewLimit(t, n, u, times, descriptors.SlidingWindow, precision)
	}
	three := backendtest.NewLimit(t, 3*n, descriptors.Hour, 1, descriptors.SlidingWindow, 0)
	return [][]descriptors.Limit{
		{sliding(10, descriptors.Second, time.Second)}, {sliding(12, descriptors.Minute, time.Minute)},
		{sliding(1, descriptors.Day, time.Hour)}, {sliding(10, descriptors.Second, 0)},
		{sliding(12, descriptors.Minute, time.Minute), three},
		{backendtest.NewLimit(t, n, descriptors.Minute, 1, descriptors.FixedWindow, 0)},
		{sliding(12, descriptors.Minute, 0), backendtest.NewLimit(t, 3*n, descriptors.Hour, 1, descriptors.FixedWindow, 0)},
	}[r.IntN(7)]
}

// leasing is some weirs that lease hits of one key on one server, and an exact log of what they admitted. Their
// monotonic clock stands still between two steps of the walk; the server's is ahead of it by a shift.
type leasing struct {
	t      *testing.T
	r      *rand.Rand
	store  *Store
	shard  *atomic.Int64 // the server's clock
	now    time.Time
	shift  time.Duration // of the server's clock
	passed time.Duration // by the server's clock, steps back not taken off
	steps  bool          // the server's clock steps
	moves  int           // how often it has
	weirs  []*leasingWeir
	key    []byte
	limits []descriptors.Limit
	states []time.Duration // when the key was reset
	loses  bool            // other replicas reset the key, and each of its states is held to N by itself
	log    []admission
	load   uint64 // N is more than so many times a check
	depth  int
}

// leasingWeir is a guard before the store that all share, on a way that takes its time.
type leasingWeir struct {
	*Store
	of    *leasing
	guard *guard.Guard
	stale bool // the server's clock has stepped since it was last asked: a lease may go by the old one
	cut   bool // the server cannot be reached
	late  bool // its answers come too late
	wants int  // checks that wanted a lease
	state int  // number of the key's state that granted the last lease
}

// admission is hits that were admitted, or what is left of them after refunds.
type admission struct {
	passed time.Duration
	at     int64 // on the server's clock
	hits   uint64
	limits []descriptors.Limit
	state  int // number of the key's state that the hits were charged in
}

// Decide asks the store. While the question and the answer are under way time passes, and others ask.
func (w *leasingWeir) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if w.cut {
		for i := range checks {
			out[i] = backend.Decision{Err: &backend.UnavailableError{Reason: backend.Down, Err: errors.New("connection refused")}}
		}
		return nil
	}
	for i := range checks {
		if q := checks[i].Lease; q != nil && q.Want > 0 {
			w.wants++
		}
	}
	w.of.linger()
	moves := w.of.moves
	w.stale = w.stale && checks[0].Op == backend.Look
	if err := w.Store.Decide(ctx, checks, out); err != nil {
		return err
	}
	if w.late {
		for i := range checks {
			out[i] = backend.Decision{Err: &backend.UnavailableError{Reason: backend.Late, Err: context.DeadlineExceeded}}
			if q := checks[i].Lease; q != nil {
				q.Hits, q.Returned = 0, 0
			}
		}
		return nil
	}
	for i := range checks {
		q := checks[i].Lease
		if q != nil && checks[i].Op == backend.Refund {
			continue // a settlement
		}
		w.of.admit(&checks[i], &out[i], len(w.of.states))
		if q != nil && q.Hits > 0 {
			w.state = len(w.of.states)
		}
	}
	w.of.linger()
	w.stale = w.stale || moves != w.of.moves
	return nil
}

// Close leaves the store to the others.
func (w *leasingWeir) Close() error { return nil }

// linger lets time pass, now and then, in which others ask.
func (l *leasing) linger() {
	if l.depth < 2 && l.r.IntN(4) == 0 {
		l.depth++
		l.move()
		l.step()
		l.depth--
	}
}

// passes moves the clocks, in steps between which each replica may settle the leases that have ended.
func (l *leasing) passes(d time.Duration) {
	for step := range steps(d) {
		l.now, l.passed = l.now.Add(step), l.passed+step
		l.shard.Store(l.now.Add(l.shift).UnixMicro())
		for _, w := range l.weirs {
			w.guard.Settle(l.t.Context())
		}
	}
}

// steps divides a duration into steps of 50 ms. What exceeds two seconds is one last step: no lease is out any more.
func steps(d time.Duration) iter.Seq[time.Duration] {
	const width = 50 * time.Millisecond
	return func(yield func(time.Duration) bool) {
		for n := 0; d > width && n < 40; n++ {
			if d -= width; !yield(width) {
				return
			}
		}
		yield(d)
	}
}

// move moves the clocks: mostly within a bucket, now and then a part of a window or past it.
func (l *leasing) move() {
	span, window := backend.LeaseSpan(l.limits), l.limits[0].Window
	most := []time.Duration{span / 20, span / 20, span / 20, span / 20, span / 5, span / 5, span / 5, span}[l.r.IntN(8)]
	if l.r.IntN(60) == 0 {
		most = window + span // which is when what came together leaves together
	}
	l.passes(time.Duration(l.r.Int64N(int64(most))))
	if l.steps && l.r.IntN(50) == 0 {
		step := time.Duration(l.r.Int64N(int64(4*span))) - 2*span
		l.shift, l.passed, l.moves = l.shift+step, l.passed+max(0, step), l.moves+1
		l.passes(0)
		for _, w := range l.weirs {
			w.stale = true
		}
	}
}

func (l *leasing) open() *leasingWeir {
	w := &leasingWeir{Store: l.store, of: l}
	w.guard = guard.New(w, guard.Config{Leases: true, Now: func() time.Time { return l.now }})
	return w
}

// step lets one weir do something.
func (l *leasing) step() {
	i := l.r.IntN(len(l.weirs))
	w, n := l.weirs[i], l.limits[0].Requests
	switch e := l.r.IntN(500); {
	case e == 0: // it is killed
		l.weirs[i] = l.open()
	case e == 1: // it ends, and settles
		if err := w.guard.Close(); err != nil {
			l.t.Fatal(err)
		}
		l.weirs[i] = l.open()
	case e == 2: // an operator resets the key
		if err := w.guard.Reset(l.t.Context(), l.key); err != nil {
			l.t.Fatal(err)
		}
		l.states = append(l.states, l.passed)
	case l.loses && e >= 490: // another replica resets it
		if err := l.store.Reset(l.t.Context(), l.key); err != nil {
			l.t.Fatal(err)
		}
		l.states = append(l.states, l.passed)
	case e == 3: // another configuration
		l.limits = slices.Clone(l.limits)
		l.limits[0].Requests = min(100_000, max(10, n/2+l.r.Uint64N(n)))
	case e < 6:
		w.cut = !w.cut
	case e < 12:
		l.ask(w, backend.Refund, 1+l.r.Uint64N(n/5))
	case e < 20:
		l.ask(w, backend.Look, 0)
	case e < 25:
		l.ask(w, backend.Count, 1+l.r.Uint64N(n/4))
	default:
		l.ask(w, backend.Count, 1+l.r.Uint64N(1+n/l.load))
	}
}

// ask has a weir decide a check. What the store admits is logged when it does, what a lease does now.
func (l *leasing) ask(w *leasingWeir, op backend.Op, hits uint64) {
	check := backend.Check{Key: l.key, Limits: l.limits, Op: op, Hits: hits, Charge: descriptors.ChargeAdmitted}
	if check.Leases = l.r.IntN(100) > 0; l.r.IntN(20) > 0 {
		check.Rate = float32(l.limits[0].Requests) / 4 * l.r.Float32() / float32(backend.LeaseSpan(l.limits).Seconds())
	}
	stale := w.stale
	var out [1]backend.Decision
	if err := w.guard.Decide(l.t.Context(), []backend.Check{check}, out[:]); err != nil {
		l.t.Fatal(err)
	}
	if out[0].Source == backend.FromLease && !(stale && op == backend.Count) {
		l.admit(&check, &out[0], w.state)
	}
}

// admit logs what was admitted or given back now, in a state of the key, and looks back from it.
func (l *leasing) admit(c *backend.Check, d *backend.Decision, state int) {
	switch {
	case d.Err != nil || !d.Allowed || c.Op == backend.Look:
		return
	case c.Op == backend.Refund:
		for i, n := len(l.log)-1, c.Hits; i >= 0 && n > 0; i-- {
			if l.loses && l.log[i].state != state {
				continue
			}
			part := min(n, l.log[i].hits)
			l.log[i].hits, n = l.log[i].hits-part, n-part
		}
		return
	}
	now := l.shard.Load()
	l.log = append(l.log, admission{l.passed, now, c.Hits, c.Limits, state})
	for i := range c.Limits {
		limit := &c.Limits[i]
		width := limit.Window.Microseconds()
		var held, most uint64
		for j := len(l.log) - 1; j >= 0; j-- {
			one := &l.log[j]
			if limit.Algorithm == descriptors.FixedWindow && (l.steps || one.at/width != now/width) ||
				limit.Algorithm == descriptors.SlidingWindow && l.passed-one.passed >= limit.Window {
				break
			}
			if l.loses && one.state != state {
				continue
			}
			held, most = held+one.hits, max(most, one.limits[i].Requests)
		}
		states := uint64(1)
		for _, reset := range l.states {
			if !l.loses && l.passed-reset < limit.Window+backend.LeaseSpan(c.Limits) { // leases of a state may outlive it for so long
				states++
			}
		}
		if held > states*most {
			l.t.Fatalf("%s, %d weirs, at %d: %v: %d hits were admitted in the last window, in which the key had %d states",
				l.key, len(l.weirs), now, limit, held, states)
		}
	}
}

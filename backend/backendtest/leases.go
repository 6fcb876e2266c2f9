package backendtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// RunLeases puts stores that lease to random walks of several processes, which use what they are granted until its
// bucket is over, settle it now or later, or never. After each step the store must answer as its model, and what it
// counts must hold all that was used in the last window and all that may still be used: so no window holds more than N.
func RunLeases(t *testing.T, open func(t *testing.T) Store, o Options) {
	t.Run("NeverOverWithLeases", func(t *testing.T) { walkLeases(t, open(t), false, o) })
	t.Run("ALostStatesLeaseTakesNothing", func(t *testing.T) { walkLeases(t, open(t), true, o) })
	t.Run("ARefundLeavesWhatOthersMayUse", func(t *testing.T) { testRefundBesideLease(t, open(t)) })
	t.Run("AClockThatStepsBackVoidsLeases", func(t *testing.T) { testStepBackBesideLease(t, open(t)) })
}

// walkLeases walks. With losses, the key now and then loses its state, and leases of lost states are settled in later
// ones. A fresh key stands for a state that begins.
func walkLeases(t *testing.T, store Store, losses bool, o Options) {
	r := rand.New(rand.NewPCG(o.Seed, 27))
	for round := 0; o.Steps > 0; round++ {
		w := &leaseWalk{store: store, r: r, m: newModel(leasable(r)), key: fmt.Appendf(nil, "leases/%v/%d", losses, round),
			now: start + window.Instant(r.Int64N(1e12))}
		for range min(o.Steps, 200) {
			if o.Steps--; losses && r.IntN(30) == 0 {
				w.lose()
			}
			w.step(t, o.Patience)
		}
	}
}

// leasable draws a rule that may lease, of limits from too small to large.
func leasable(r *rand.Rand) rule {
	drawn := randomRule(r, together[r.IntN(3)])
	drawn.charge = descriptors.ChargeAdmitted
	for i := range drawn.limits {
		drawn.limits[i].Requests *= 1 << r.IntN(9)
	}
	return drawn
}

// held is a lease of one process.
type held struct {
	granted, left uint64
	at, ends      window.Instant
	state         uint64
}

type leaseWalk struct {
	store  Store
	r      *rand.Rand
	m      *model
	key    []byte
	now    window.Instant
	leases []held // that are not settled
	lost   []held // of states that were lost
}

// lose begins another state.
func (w *leaseWalk) lose() {
	w.key, w.m, w.now = append(w.key, '+'), newModel(w.m.rule), w.now+1
	w.lost, w.leases = append(w.lost, w.leases...), nil
}

// step moves the clock, and uses a lease or asks the store.
func (w *leaseWalk) step(t *testing.T, patience time.Duration) {
	limits := w.m.rule.limits
	move := RandomMove(w.r, limits, 1)
	if w.r.IntN(3) > 0 {
		move = window.Instant(w.r.Int64N(backend.LeaseSpan(limits).Microseconds()/2 + 1))
	}
	w.now = max(0, w.now+move)
	w.store.SetTime(w.now)
	for i := range w.leases {
		if move < 0 { // whoever sees that uses its leases no more: their buckets are others now
			w.leases[i].ends = 0
		}
	}
	for _, log := range w.m.logs {
		log.tick(w.now)
	}
	if one := w.alive(); one != nil && w.r.IntN(3) > 0 {
		used := 1 + w.r.Uint64N(one.left)
		one.left -= used
		for _, log := range w.m.logs {
			log.count(used)
		}
	} else {
		w.ask(t)
	}
	w.check(t)
	w.now = max(w.now, w.m.gone(w.now, patience))
}

// alive returns one of the leases that may still be used, nil if there is none.
func (w *leaseWalk) alive() *held {
	for _, i := range w.r.Perm(len(w.leases)) {
		if l := &w.leases[i]; l.left > 0 && w.now < l.ends {
			return l
		}
	}
	return nil
}

// ask asks a random check, which may wish for a lease, or settles one, also of a state that was lost.
func (w *leaseWalk) ask(t *testing.T) {
	c := backend.Check{Key: w.key, Limits: w.m.rule.limits, Charge: w.m.rule.charge}
	c.Op, c.Hits = randomOp(w.r, w.m.rule.limits[0].Requests)
	from := &w.leases
	if len(w.lost) > 0 && w.r.IntN(2) > 0 {
		from = &w.lost
	}
	switch n := len(*from); {
	case n > 0 && w.r.IntN(2) > 0:
		i := w.r.IntN(n)
		l := (*from)[i]
		*from = slices.Delete(*from, i, i+1)
		c.Op, c.Hits = backend.Refund, 0
		c.Lease = &backend.Lease{Granted: l.granted, Unused: l.left, ChargedAt: time.UnixMicro(int64(l.at)), State: l.state}
	case c.Op == backend.Count && w.r.IntN(3) > 0:
		c.Lease = &backend.Lease{Want: w.r.Uint64N(1 + w.m.rule.limits[0].Requests), Share: 1 + w.r.Uint64N(10),
			Abandoned: w.r.Uint64N(1 + w.m.rule.limits[0].Requests/20), State: 1 + w.r.Uint64N(1<<52)}
	}
	var asked backend.Lease
	if c.Lease != nil {
		asked = *c.Lease
	}
	got := Ask(t, w.store.Counter, c)
	want, answer := w.m.decideLease(&c, asked, w.now)
	if got != want || c.Lease != nil && *c.Lease != answer {
		t.Fatalf("%d: operation %d, %d hits under %v, lease %+v: the store decides\n%+v %+v; its model says\n%+v %+v", w.now, c.Op,
			c.Hits, c.Limits, asked, got, c.Lease, want, answer)
	}
	if l := c.Lease; l != nil && l.Hits > 0 {
		w.leases = append(w.leases, held{l.Hits, l.Hits, w.now, w.now.Plus(l.TimeLeft(c.Limits)), l.State})
	}
}

// check sees that what is counted holds all that was used in the last window, and all that may still be used.
func (w *leaseWalk) check(t *testing.T) {
	t.Helper()
	var usable uint64
	for _, l := range w.leases {
		if w.now < l.ends {
			usable += l.left
		}
	}
	for i := range w.m.rule.limits {
		l := &w.m.rule.limits[i]
		sum, used := w.m.counts[i].Sum(w.now), w.m.logs[i].least()
		if l.Algorithm == descriptors.SlidingWindow && (sum < used+usable || used > l.Requests) {
			t.Fatalf("%v at %d counts %d hits; %d were used in the last window, and %d may still be: more than %d may pass",
				l, w.now, sum, used, usable, l.Requests)
		}
	}
}

// decideLease is decide for a check that may ask about leases. The answer is what the store should make of asked.
func (m *model) decideLease(c *backend.Check, asked backend.Lease, now window.Instant) (d backend.Decision, answer backend.Lease) {
	for i := range m.counts {
		if m.counts[i].(*Buckets).stepsBack(now) {
			m.state = 0
		}
	}
	if c.Lease != nil {
		answer = asked
		answer.Now = time.UnixMicro(int64(now))
	}
	if asked.Granted > 0 {
		answer.State = m.state
	}
	if asked.Granted > 0 && asked.State == m.state {
		answer.Returned = asked.Unused
		for i := range m.counts {
			back := m.counts[i].(*Buckets).Settle(now, window.At(asked.ChargedAt), asked.Granted, asked.Unused)
			answer.Returned = min(answer.Returned, back)
		}
	}
	if d = m.decide(c.Op, c.Hits, now); !d.Allowed {
		m.awaitSettlement(c, &d, now)
	}
	if c.Lease == nil || c.Op != backend.Count {
		return d, answer
	}
	answer.Hits, answer.State = asked.Want, 0
	for i := range m.counts {
		room := m.rule.limits[i].Requests - min(m.rule.limits[i].Requests, m.counts[i].Sum(now))
		share := room / max(1, asked.Share)
		answer.Hits = min(answer.Hits, share-min(share, asked.Abandoned))
	}
	if !d.Allowed || answer.Hits < backend.MinLeaseHits || answer.Hits < (asked.Want+3)/4 {
		answer.Hits = 0
		return d, answer
	}
	m.state, m.leased = cmp.Or(m.state, asked.State), now
	answer.State = m.state
	for i := range m.counts {
		m.counts[i].(*Buckets).Grant(now, answer.Hits)
	}
	return d, answer
}

// awaitSettlement lets a check that was denied wait no longer than until the last lease is settled, if it would fit then.
func (m *model) awaitSettlement(c *backend.Check, d *backend.Decision, now window.Instant) {
	var wait time.Duration
	for i := range m.counts {
		l, size, leased, sum := &m.rule.limits[i], uint64(1), uint64(0), uint64(0)
		if c.Op == backend.Count {
			size = c.Hits
		} else if l.Algorithm == descriptors.FixedWindow {
			size = 0
		}
		b := m.counts[i].(*Buckets)
		for k, n := range b.hits {
			leased, sum = leased+b.leased[k], sum+n
		}
		if size > l.Requests || sum-leased > l.Requests-size {
			return
		}
		if leased > 0 {
			wait = max(wait, min(backend.LeaseSpan(m.rule.limits[i:i+1]), backend.MaxLeaseTime)+backend.SettleTime)
		}
	}
	if wait -= time.Duration(now-m.leased) * time.Microsecond; wait > 0 && m.state > 0 {
		d.RetryIn, d.ResetIn = min(d.RetryIn, wait), min(d.ResetIn, wait)
	}
}

// Sixteen a minute, of which 8 are used. Another process is granted the other 8 at 59 s. Somebody gives back 8. Were these
// the newest, which are leased, their user would use them at 59.5 s, and 61 s would admit too many.
func testRefundBesideLease(t *testing.T, s Store) {
	limits := []descriptors.Limit{NewLimit(t, 16, descriptors.Minute, 1, descriptors.SlidingWindow, 0)}
	check := backend.Check{Key: []byte("refunded"), Limits: limits, Hits: 7}
	s.SetTime(0)
	Ask(t, s.Counter, check)
	s.SetTime(59e6)
	check.Hits, check.Lease = 1, &backend.Lease{Want: 8, Share: 1}
	if Ask(t, s.Counter, check); check.Lease.Hits != 8 {
		t.Fatalf("8 of the 8 that remain are wanted, and %d granted", check.Lease.Hits)
	}
	check.Op, check.Hits, check.Lease = backend.Refund, 8, nil
	if d := Ask(t, s.Counter, check); !d.Allowed || d.Remaining != 8 {
		t.Errorf("a refund of 8 gives %+v; want 8 to remain, beside the 8 that are leased", d)
	}
	s.SetTime(61e6) // the 8 were used at 59.5 s
	check.Op, check.Hits = backend.Count, 9
	if d := Ask(t, s.Counter, check); d.Allowed {
		t.Errorf("9 hits pass beside the 8 that were used 1.5 s before: 17 of 16 in two seconds")
	}
}

// A process is granted 100 hits at 60.5 s. The clock steps back to 59.5 s, and at 60.2 s another is granted 100. Were the
// first to give back its hits now, they would be those of the other, as their buckets have the same number.
func testStepBackBesideLease(t *testing.T, s Store) {
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.FixedWindow} {
		limits := []descriptors.Limit{NewLimit(t, 1000, descriptors.Minute, 1, a, 0)}
		check := backend.Check{Key: []byte("stepped " + a.String()), Limits: limits, Hits: 1, Charge: descriptors.ChargeAdmitted}
		var leases [2]backend.Lease
		for i, at := range []window.Instant{60_500_000, 59_500_000, 60_200_000} {
			s.SetTime(at)
			if check.Lease = nil; at > 60_000_000 {
				check.Lease = &backend.Lease{Want: 100, Share: 1, State: uint64(7 + i)}
			}
			Ask(t, s.Counter, check)
			if check.Lease != nil {
				leases[i/2] = *check.Lease
			}
		}
		first := leases[0]
		check.Op, check.Hits = backend.Refund, 0
		check.Lease = &backend.Lease{Granted: first.Hits, Unused: first.Hits, ChargedAt: first.Now, State: first.State}
		if Ask(t, s.Counter, check); first.Hits != 100 || leases[1].Hits != 100 || check.Lease.Returned != 0 {
			t.Errorf("%v: leases %+v; the settlement of the first takes back %d hits, want none: they may be the second's", a, leases,
				check.Lease.Returned)
		}
	}
}

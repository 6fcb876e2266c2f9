package backendtest

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// model is what a store should know of one key: the count of each limit as its algorithm is defined, which is that of
// literal buckets or of a level, and an exact log beside it.
type model struct {
	rule   rule
	counts []count
	logs   []*exactLog
	state  uint64         // its identity, 0 for none
	leased window.Instant // when it last leased
}

// count is the count of one limit. Its methods are those of a window.State.
type count interface {
	Sum(now window.Instant) uint64
	Add(now window.Instant, delta int64)
	Until(now window.Instant, keep uint64) window.Instant
}

// rule is what all checks of a key have in common.
type rule struct {
	limits []descriptors.Limit
	charge descriptors.Charge
}

func newModel(r rule) *model {
	m := &model{rule: r}
	for i := range r.limits {
		if r.limits[i].Algorithm == descriptors.TokenBucket {
			m.counts = append(m.counts, newLeaking(&r.limits[i]))
		} else {
			m.counts = append(m.counts, NewBuckets(&r.limits[i]))
		}
		m.logs = append(m.logs, newLog(&r.limits[i]))
	}
	return m
}

// follow changes the requests of some limits, as another configuration does. What a token bucket admitted under the
// last one is no matter of this one's promise.
func (m *model) follow(limits []descriptors.Limit) {
	for i := range limits {
		if limits[i].Algorithm == descriptors.TokenBucket && limits[i] != m.rule.limits[i] {
			m.logs[i] = newLog(&limits[i])
		}
	}
	m.rule.limits = limits
}

// draw draws a check of a key, now and then under other numbers of requests.
func (m *model) draw(r *rand.Rand, key []byte) backend.Check {
	m.follow(changed(r, m.rule.limits))
	c := backend.Check{Key: key, Limits: m.rule.limits, Charge: m.rule.charge}
	c.Op, c.Hits = randomOp(r, m.rule.limits[0].Capacity())
	return c
}

// ask asks a store what the model decides, too: the decisions must be the same.
func (m *model) ask(t *testing.T, store Store, c backend.Check, now window.Instant) backend.Decision {
	t.Helper()
	got, want := Ask(t, store.Counter, c), m.decide(c.Op, c.Hits, now)
	if got != want {
		t.Fatalf("operation %d of %d hits of key %s under %v, charge %d: the store decides\n%+v; its model says\n%+v",
			c.Op, c.Hits, c.Key, c.Limits, c.Charge, got, want)
	}
	return got
}

// decide returns the decision that the store should come to, said as plainly as the rulings are. It takes the hits into
// the counts and the logs.
func (m *model) decide(op backend.Op, hits uint64, now window.Instant) backend.Decision {
	before, denying := make([]uint64, len(m.counts)), []int(nil)
	for i, b := range m.counts {
		if bucket, ok := b.(*leaking); ok {
			bucket.follow(&m.rule.limits[i], now)
		}
		before[i] = b.Sum(now)
		m.logs[i].tick(now)
		if op != backend.Refund && over(before[i], m.size(i, op, hits), m.rule.limits[i].Capacity()) {
			denying = append(denying, i)
		}
	}
	for i := range m.counts {
		switch charged := len(denying) == 0 || m.rule.charge.Always(&m.rule.limits[i]); {
		case op == backend.Refund:
			m.logs[i].removeNewest(min(hits, before[i]))
			m.counts[i].Add(now, -int64(min(hits, window.MaxCount)))
		case op == backend.Count && charged:
			m.logs[i].count(min(hits, window.MaxCount-before[i]))
			m.counts[i].Add(now, int64(min(hits, window.MaxCount)))
		}
	}
	if len(denying) > 0 {
		return m.denial(denying, before, op, hits, now)
	}
	return m.admission(before, op, hits, now)
}

// over reports whether a count and some hits are more than n together.
func over(before, hits, n uint64) bool {
	sum, carry := bits.Add64(before, hits, 0)
	return carry > 0 || sum > n
}

// size returns how many hits must fit a limit.
func (m *model) size(i int, op backend.Op, hits uint64) uint64 {
	switch {
	case op == backend.Count:
		return hits
	case m.rule.limits[i].Algorithm == descriptors.FixedWindow:
		return 0
	}
	return 1
}

// admission speaks for the limit with the least left, of those with nothing left for the one whose reset is last, and
// tells when as many hits fit all limits again.
func (m *model) admission(before []uint64, op backend.Op, hits uint64, now window.Instant) backend.Decision {
	all, next := make([]backend.Decision, len(m.counts)), time.Duration(0)
	for i, b := range m.counts {
		l, after := &m.rule.limits[i], b.Sum(now)
		d := backend.Decision{Allowed: true, Strictest: i, Before: before[i]}
		if after < l.Capacity() {
			d.Remaining = l.Capacity() - after
		}
		switch width := micros(l.Window); {
		case after > 0:
			d.ResetIn = span(now, b.Until(now, after-1))
		case l.Algorithm == descriptors.FixedWindow:
			d.ResetIn = span(now%width, width)
		}
		if op == backend.Count && over(after, hits, l.Capacity()) {
			next = max(next, span(now, b.Until(now, l.Capacity()-hits)))
		}
		all[i] = d
	}
	out := slices.MinFunc(all, func(a, b backend.Decision) int {
		if a.Remaining+b.Remaining == 0 {
			return cmp.Compare(b.ResetIn, a.ResetIn)
		}
		return cmp.Compare(a.Remaining, b.Remaining)
	})
	out.NextIn = next
	return out
}

// denial speaks for the denying limit with the longest wait, and tells the longest wait of all: a limit that admitted
// the check and charged it all the same may be full now.
func (m *model) denial(denying []int, before []uint64, op backend.Op, hits uint64, now window.Instant) backend.Decision {
	waits, out := make([]time.Duration, len(m.counts)), backend.Decision{}
	for i, b := range m.counts {
		l, size := &m.rule.limits[i], m.size(i, op, hits)
		reset := l.Window
		switch {
		case size <= l.Capacity():
			waits[i] = span(now, b.Until(now, l.Capacity()-size))
			reset = waits[i]
		default:
			waits[i] = backend.Never
			if b.Sum(now) > 0 {
				reset = span(now, b.Until(now, 0))
			}
		}
		out.ResetIn = max(out.ResetIn, reset)
	}
	out.Strictest = slices.MaxFunc(denying, func(a, b int) int { return cmp.Compare(waits[a], waits[b]) })
	out.Before, out.RetryIn = before[out.Strictest], slices.Max(waits)
	return out
}

// gone returns when nothing of the key counts any more, if that is less than patience from now; else 0.
func (m *model) gone(now window.Instant, patience time.Duration) window.Instant {
	if patience == 0 {
		return 0
	}
	last := now
	for _, b := range m.counts {
		last = max(last, b.Until(now, 0))
	}
	if span(now, last) >= patience {
		return 0
	}
	return last
}

func span(from, to window.Instant) time.Duration { return time.Duration(to-from) * time.Microsecond }

// check compares the counts with the exact logs: buckets may hold a hit too long, but by no more than a precision, and
// never let one go too early; a sliding log has no precision, and is exact.
func (m *model) check(t *testing.T, now window.Instant) {
	t.Helper()
	for i := range m.rule.limits {
		if a := m.rule.limits[i].Algorithm; a == descriptors.FixedWindow || a == descriptors.TokenBucket {
			continue
		}
		sum, least, most := m.counts[i].Sum(now), m.logs[i].least(), m.logs[i].most()
		if sum < least || sum > most {
			t.Fatalf("%v counts %d hits; the exact log has %d in the last window and %d in it and a precision",
				m.rule.limits[i], sum, least, most)
		}
	}
}

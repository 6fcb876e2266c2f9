package backendtest

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// model is what a store should know of one key: the literal buckets of each limit, and an exact log beside them.
type model struct {
	rule    rule
	buckets []*window.Buckets
	logs    []*exactLog
}

// rule is what all checks of a key have in common.
type rule struct {
	limits []descriptors.Limit
	charge descriptors.Charge
}

func newModel(r rule) *model {
	m := &model{rule: r}
	for i := range r.limits {
		m.buckets = append(m.buckets, window.NewBuckets(&r.limits[i]))
		m.logs = append(m.logs, newLog(&r.limits[i]))
	}
	return m
}

// decide is the decision that the store should come to. It takes the hits into the logs as well.
func (m *model) decide(op backend.Op, hits uint64, now window.Instant) backend.Decision {
	counts := make([]window.Count, len(m.buckets))
	before := make([]uint64, len(m.buckets))
	for i, b := range m.buckets {
		counts[i] = b
		before[i] = b.Sum(now)
		m.logs[i].tick(now)
	}
	var v window.Verdict
	switch op {
	case backend.Look:
		v = window.Look(counts, m.rule.limits, now)
	case backend.Refund:
		v = window.Refund(counts, m.rule.limits, hits, now)
		for i := range m.logs {
			m.logs[i].takeBack(min(hits, before[i]))
		}
	case backend.Count:
		v = window.Charge(counts, m.rule.limits, hits, m.rule.charge, now)
		for i := range m.logs {
			if v.Allowed || m.rule.charge.Always(&m.rule.limits[i]) {
				m.logs[i].count(min(hits, window.MaxCount-before[i]))
			}
		}
	}
	return backend.Decision(v)
}

// check compares the literal buckets with the exact logs: the buckets may hold a hit too long, but by no more than a
// precision, and never let one go too early.
func (m *model) check(t *testing.T, now window.Instant) {
	t.Helper()
	for i := range m.rule.limits {
		if m.rule.limits[i].Algorithm == descriptors.FixedWindow {
			continue
		}
		sum, least, most := m.buckets[i].Sum(now), m.logs[i].least(), m.logs[i].most()
		if sum < least || sum > most {
			t.Fatalf("%v counts %d hits; the exact log has %d in the last window and %d in it and a precision",
				m.rule.limits[i], sum, least, most)
		}
	}
}

package engine

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// selector is what a query says of one of its selectors.
type selector struct {
	smoothed, anchored bool
	subquery           bool  // evaluated at multiples of its step
	offset             int64 // milliseconds
}

func newSelector(v *parser.VectorSelector, path []parser.Node) selector {
	s := selector{smoothed: v.Smoothed, anchored: v.Anchored, offset: v.OriginalOffset.Milliseconds()}
	for _, n := range path {
		if _, is := n.(*parser.SubqueryExpr); is {
			s.subquery = true
		}
	}
	return s
}

// moments are those of the history that a selector asks about, in Unix milliseconds: from the first to the last, a step
// apart, and where it has a range as many again, earlier by that. Those of a subquery may be more than it evaluates.
type moments struct {
	first, last, step, back int64
	free                    bool // Prometheus's engine does not count what it makes of them against its bound
}

// moments takes from what the engine says of the time to be read what it has added: the lookback and the range.
func (s selector) moments(h *storage.SelectHints, lookback int64) moments {
	m := moments{first: h.Start + h.Range - 1, last: h.End, step: h.Step, back: h.Range, free: s.smoothed && h.Range == 0}
	if h.Range == 0 || s.smoothed || s.anchored {
		m.first += lookback
	}
	if s.smoothed {
		m.last -= lookback
	}
	if s.subquery && m.step > 0 {
		m.first = ceil(m.first+s.offset+1, m.step) - s.offset
	}
	if m.step <= 0 {
		m.last = m.first
	}
	return m
}

// ceil returns the least multiple of a step that is not less than n.
func ceil(n, step int64) int64 {
	if n%step > 0 {
		n += step
	}
	return n - n%step
}

// count returns how many there are, without those of the beginnings of windows.
func (m moments) count() int {
	if m.step <= 0 || m.last <= m.first {
		return 1
	}
	return int(min((m.last-m.first)/m.step, math.MaxInt32)) + 1
}

// spans reports whether a bucket holds a moment between the first and the last that are asked about.
func (m moments) spans(p history.Point) bool {
	return p.Start*1000 < m.last && p.End()*1000 > m.first-m.back
}

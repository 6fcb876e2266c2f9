package engine

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// selector is what a query says of one of its vector selectors.
type selector struct {
	smoothed, anchored bool
	subquery           bool  // evaluated at multiples of its step
	offset             int64 // milliseconds
}

func newSelector(v *parser.VectorSelector, path []parser.Node) selector {
	s := selector{smoothed: v.Smoothed, anchored: v.Anchored, offset: v.OriginalOffset.Milliseconds()}
	for _, n := range path {
		if _, ok := n.(*parser.SubqueryExpr); ok {
			s.subquery = true
		}
	}
	return s
}

// evaluationTimes are when a selector is evaluated, in Unix milliseconds: from the first time to the last, a step apart,
// each with a window before it if it is a range selector. Those of a subquery may be more than it evaluates.
type evaluationTimes struct {
	first, last, step, window int64
	uncounted                 bool // Prometheus's engine does not count what it makes of them against its bound
}

// times takes from what the engine says of the time to be read what it has added: the lookback and the range.
func (s selector) times(h *storage.SelectHints, lookback int64) evaluationTimes {
	t := evaluationTimes{first: h.Start + h.Range - 1, last: h.End, step: h.Step, window: h.Range,
		uncounted: s.smoothed && h.Range == 0}
	if h.Range == 0 || s.smoothed || s.anchored {
		t.first += lookback
	}
	if s.smoothed {
		t.last -= lookback
	}
	if s.subquery && t.step > 0 {
		t.first = ceil(t.first+s.offset+1, t.step) - s.offset
	}
	if t.step <= 0 {
		t.last = t.first
	}
	return t
}

// ceil returns the least multiple of a step that is not less than n.
func ceil(n, step int64) int64 {
	if n%step > 0 {
		n += step
	}
	return n - n%step
}

// count returns how many there are.
func (t evaluationTimes) count() int {
	if t.step <= 0 || t.last <= t.first {
		return 1
	}
	return int(min((t.last-t.first)/t.step, math.MaxInt32)) + 1
}

// meet reports whether a bucket lies between the first time, or the beginning of its window, and the last.
func (t evaluationTimes) meet(p history.Point) bool {
	return p.Start*1000 < t.last && p.End()*1000 > t.first-t.window
}

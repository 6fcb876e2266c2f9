package backendtest

import (
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// exactLog remembers every hit that one limit of one key counted, and when. It knows nothing of buckets.
//
// A clock that steps back needs two times for a hit. Its age is the time that has passed since, steps back not taken
// off: by it no window may hold too much. Its stamp is where it stands on the clock, moved to now when the clock steps
// back behind it: by it a hit must stop counting.
type exactLog struct {
	window, precision window.Instant
	clock, passed     window.Instant
	hits              []logged
}

type logged struct {
	n             uint64
	stamp, passed window.Instant
}

func newLog(l *descriptors.Limit) *exactLog {
	if l.Algorithm == descriptors.TokenBucket {
		return &exactLog{window: 1 << 62} // its promise is about intervals of any length
	}
	return &exactLog{window: micros(l.Window), precision: micros(l.Precision)}
}

// tick moves the log to now.
func (g *exactLog) tick(now window.Instant) {
	if g.clock != 0 {
		g.passed += max(0, now-g.clock)
	}
	g.clock = now
	kept := g.hits[:0]
	for _, h := range g.hits {
		h.stamp = min(h.stamp, now)
		if now-h.stamp < g.window+g.precision || g.passed-h.passed < g.window {
			kept = append(kept, h)
		}
	}
	g.hits = kept
}

func (g *exactLog) count(n uint64) {
	g.hits = append(g.hits, logged{n, g.clock, g.passed})
}

// removeNewest removes the newest n hits.
func (g *exactLog) removeNewest(n uint64) {
	for i := len(g.hits) - 1; i >= 0 && n > 0; i-- {
		part := min(n, g.hits[i].n)
		g.hits[i].n -= part
		n -= part
	}
}

// least returns how many hits the last window holds exactly; a store must count them all.
func (g *exactLog) least() (sum uint64) {
	for _, h := range g.hits {
		if g.passed-h.passed < g.window {
			sum += h.n
		}
	}
	return sum
}

// most returns how many hits may still count: those less than a window and a precision behind now on the clock.
func (g *exactLog) most() (sum uint64) {
	for _, h := range g.hits {
		if g.clock-h.stamp < g.window+g.precision {
			sum += h.n
		}
	}
	return sum
}

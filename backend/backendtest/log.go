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
	return &exactLog{window: window.Instant(l.Window.Microseconds()), precision: window.Instant(l.Precision.Microseconds())}
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

// takeBack removes the newest n hits.
func (g *exactLog) takeBack(n uint64) {
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

// instants is a sliding log as it is defined: the instants of the hits, each of which counts for exactly a window. It
// keeps a list from the oldest to the newest, and adds up what it needs.
type instants struct {
	window window.Instant
	hits   []instant
}

type instant struct {
	at window.Instant
	n  uint64
}

func newInstants(l *descriptors.Limit) *instants {
	return &instants{window: window.Instant(l.Window.Microseconds())}
}

// Sum returns how many hits count at now. What has left is forgotten; what is later than now moves to it.
func (g *instants) Sum(now window.Instant) (sum uint64) {
	var kept []instant
	for _, h := range g.hits {
		if h.at = min(h.at, now); now < h.at+g.window && h.n > 0 {
			kept = append(kept, h)
			sum += h.n
		}
	}
	g.hits = kept
	return sum
}

// Add counts hits, at most window.MaxCount in all, or takes the newest back.
func (g *instants) Add(now window.Instant, delta int64) {
	sum := g.Sum(now)
	if delta > 0 {
		g.hits = append(g.hits, instant{now, min(uint64(delta), window.MaxCount-sum)})
		return
	}
	back := uint64(-delta)
	for i := len(g.hits) - 1; i >= 0; i-- {
		part := min(back, g.hits[i].n)
		g.hits[i].n -= part
		back -= part
	}
}

// Until lets the oldest leave, one after the other, until at most keep are left.
func (g *instants) Until(now window.Instant, keep uint64) window.Instant {
	left := g.Sum(now)
	for _, h := range g.hits {
		if left <= keep {
			break
		}
		now = h.at + g.window
		left -= h.n
	}
	return now
}

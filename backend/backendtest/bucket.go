package backendtest

import (
	"math/big"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// leaking is a token bucket as it is defined: a level that falls evenly, by the requests of a window in each window,
// and never below 0. It is a fraction of which a window's microseconds are the denominator; what counts is the level
// rounded up, as a part of a hit takes the room of one.
type leaking struct {
	window   *big.Int // microseconds
	requests int64    // by which the level falls in a window: so many window-ths of a hit in a microsecond
	level    *big.Int // at last, in window-ths of a hit
	last     window.Instant
}

func newLeaking(l *descriptors.Limit) *leaking {
	return &leaking{window: big.NewInt(l.Window.Microseconds()), requests: leak(l), level: new(big.Int)}
}

// leak returns how many hits of a limit leak in a window. Those of one that blocks everything do as if it were one of a
// single hit.
func leak(l *descriptors.Limit) int64 { return int64(max(1, l.Requests)) }

// follow is called before each check. Under another number of requests, what counts at now leaks by that from then on.
// The share of the next hit that has leaked stays, in whole microseconds of leaking.
func (g *leaking) follow(l *descriptors.Limit, now window.Instant) {
	if leak(l) == g.requests {
		return
	}
	was, level := big.NewInt(g.requests), g.at(now)
	g.level, g.requests, g.last = g.hits(g.Sum(now)), leak(l), now
	share := new(big.Int).Sub(g.level, level)
	took := share.Div(share, was)
	took.Mul(took, was).Div(took, big.NewInt(g.requests))
	whole := upwards(g.window, big.NewInt(g.requests))
	if took.Cmp(whole) >= 0 {
		took.Sub(whole, big.NewInt(1))
	}
	g.level.Sub(g.level, took.Mul(took, big.NewInt(g.requests)))
}

// hits returns a level of whole hits.
func (g *leaking) hits(n uint64) *big.Int {
	level := new(big.Int).SetUint64(n)
	return level.Mul(level, g.window)
}

// at returns the level at now. A clock that steps back takes the time of the level with it.
func (g *leaking) at(now window.Instant) *big.Int {
	g.last = min(g.last, now)
	level := new(big.Int).Mul(big.NewInt(g.requests), big.NewInt(int64(now-g.last)))
	if level.Sub(g.level, level); level.Sign() <= 0 {
		g.level = new(big.Int) // what is empty stays so, even if the clock steps back now
		return g.level
	}
	return level
}

// Sum returns how many hits count at now.
func (g *leaking) Sum(now window.Instant) uint64 { return upwards(g.at(now), g.window).Uint64() }

// upwards divides and rounds up.
func upwards(x, by *big.Int) *big.Int {
	whole, rest := new(big.Int).DivMod(x, by, new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole
}

// Add raises the level, at most to descriptors.MaxBurst, or lowers it.
func (g *leaking) Add(now window.Instant, delta int64) {
	sum := g.Sum(now)
	switch added := min(uint64(max(0, delta)), descriptors.MaxBurst-sum); {
	case delta < 0 && uint64(-delta) >= sum:
		g.level = new(big.Int)
	case delta < 0:
		g.level = new(big.Int).Sub(g.at(now), g.hits(uint64(-delta)))
	case added > 0:
		g.level = new(big.Int).Add(g.at(now), g.hits(added))
	default:
		return
	}
	g.last = now
}

// Until returns when the level has fallen to keep, rounded up to a microsecond.
func (g *leaking) Until(now window.Instant, keep uint64) window.Instant {
	if g.Sum(now) <= keep {
		return now
	}
	moment := upwards(new(big.Int).Sub(g.level, g.hits(keep)), big.NewInt(g.requests))
	moment.Add(moment, big.NewInt(int64(g.last)))
	if moment.Cmp(big.NewInt(window.MaxCount)) > 0 {
		return window.MaxCount
	}
	return window.Instant(moment.Int64())
}

// drained returns how long a bucket takes at most until nothing of its level is left, at least a window.
func drained(l *descriptors.Limit, level uint64) time.Duration {
	wait := float64(l.Window) * (float64(level)/float64(max(1, l.Requests)) + 1)
	if wait >= float64(backend.Never) {
		return backend.Never
	}
	return time.Duration(wait)
}

// overflows reports whether more hits than its size and what leaks meanwhile were admitted by a token bucket in any
// interval that ends now. What leaks is rounded up.
func (g *exactLog) overflows(l *descriptors.Limit) bool {
	held := uint64(0)
	for i := len(g.hits) - 1; i >= 0; i-- {
		held += g.hits[i].n
		passed, width := uint64(g.passed-g.hits[i].passed), uint64(l.Window.Microseconds())
		if held > l.Burst+(passed*max(1, l.Requests)+width-1)/width {
			return true
		}
	}
	return false
}

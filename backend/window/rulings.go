package window

import (
	"math"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// MaxCount is the most hits that a state counts; it drops more. It is the largest integer that a Redis script counts
// exactly.
const MaxCount = 1<<53 - 1

// Decide decides a check; states[i] is the state of limit i. If the hits fit every limit, all limits count them, else
// only the limits that charge always. A look changes nothing. A refund removes hits from every limit, the newest first,
// never below zero, and is always allowed.
func Decide(states []State, c *backend.Check, now Instant) backend.Decision {
	allowed := true
	for i := range c.Limits {
		allowed = allowed && (c.Op == backend.Refund || Fits(states[i].Sum(now), size(c, i), c.Limits[i].Capacity()))
	}
	r := ruling{Decision: backend.Decision{Allowed: allowed, Strictest: -1}, counts: c.Op == backend.Count}
	for i := range c.Limits {
		before, hits := states[i].Sum(now), int64(min(c.Hits, MaxCount))
		switch {
		case c.Op == backend.Refund:
			states[i].Add(now, -hits)
		case c.Op == backend.Count && (allowed || c.Charge.Always(&c.Limits[i])):
			states[i].Add(now, hits)
		}
		r.add(i, states[i], &c.Limits[i], before, size(c, i), now)
	}
	return r.Decision
}

// size returns how many hits must fit limit i. A look is denied if one more hit would be; in a fixed window, as in
// envoyproxy/ratelimit, if the count is above the limit.
func size(c *backend.Check, i int) uint64 {
	switch {
	case c.Op == backend.Count:
		return c.Hits
	case c.Op == backend.Refund, c.Limits[i].Algorithm == descriptors.FixedWindow:
		return 0
	}
	return 1
}

// ruling is the decision on a check by the limits added so far.
type ruling struct {
	backend.Decision
	counts        bool          // the check counts hits
	strictestWait time.Duration // if denied, how long the strictest limit alone denies
}

// add adds limit i to the ruling. before is its count before the check, size the hits that had to fit, state its state
// after the check.
func (r *ruling) add(i int, state State, l *descriptors.Limit, before, size uint64, now Instant) {
	if !r.Allowed {
		r.addDenied(i, state, l, before, size, now)
		return
	}
	after, capacity := state.Sum(now), l.Capacity()
	if r.counts && !Fits(after, size, capacity) { // another check of this size does not fit
		r.NextIn = max(r.NextIn, now.until(state.Until(now, capacity-size)))
	}
	remaining, reset := capacity-min(after, capacity), time.Duration(0)
	if r.Strictest >= 0 && (remaining > r.Remaining || remaining == r.Remaining && remaining > 0) {
		return
	}
	switch {
	case after > 0:
		reset = now.until(state.Until(now, after-1))
	case l.Algorithm == descriptors.FixedWindow: // as in envoyproxy/ratelimit
		width := micros(l.Window)
		reset = now.until(Instant(now.index(width)+1) * width)
	}
	if r.Strictest < 0 || remaining < r.Remaining || reset > r.ResetIn { // if several are full, nothing fits before the last one resets
		r.Strictest, r.Before, r.Remaining, r.ResetIn = i, before, remaining, reset
	}
}

// addDenied adds a limit of a denied check. A limit that admitted the check also delays the next one, if it has charged
// the check and is full now.
func (r *ruling) addDenied(i int, state State, l *descriptors.Limit, before, size uint64, now Instant) {
	retry, reset, capacity := backend.Never, time.Duration(0), l.Capacity()
	if size <= capacity {
		retry = now.until(state.Until(now, capacity-size))
		reset = retry
	} else if reset = now.until(state.Until(now, 0)); reset == 0 {
		reset = l.Window
	}
	if !Fits(before, size, capacity) && (r.Strictest < 0 || retry > r.strictestWait) {
		r.Strictest, r.Before, r.strictestWait = i, before, retry
	}
	r.RetryIn, r.ResetIn = max(r.RetryIn, retry), max(r.ResetIn, reset)
}

// Fits reports whether size more hits stay within a capacity, without overflow.
func Fits(before, size, capacity uint64) bool { return before <= capacity && size <= capacity-before }

// until returns the time from t to a later moment.
func (t Instant) until(later Instant) time.Duration {
	return time.Duration(min(later-t, math.MaxInt64/1000)) * time.Microsecond
}

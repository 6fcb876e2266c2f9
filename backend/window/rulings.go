package window

import (
	"math"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// MaxCount is the most hits that a state holds; what is charged beyond it is dropped. It is the largest integer up to
// which a Redis script counts exactly.
const MaxCount = 1<<53 - 1

// Decide rules on a check; states[i] is that of limit i. Hits that are to be counted have to fit every limit: if they
// do, all count them; if not, only the limits that charge always do. A look changes nothing. A refund takes hits back
// from every limit, the newest first, never below zero, and is always allowed.
func Decide(states []State, c *backend.Check, now Instant) backend.Decision {
	allowed := true
	for i := range c.Limits {
		allowed = allowed && (c.Op == backend.Refund || Fits(states[i].Sum(now), size(c, i), c.Limits[i].Capacity()))
	}
	s := scale{Decision: backend.Decision{Allowed: allowed, Strictest: -1}, counts: c.Op == backend.Count}
	for i := range c.Limits {
		before, hits := states[i].Sum(now), int64(min(c.Hits, MaxCount))
		switch {
		case c.Op == backend.Refund:
			states[i].Add(now, -hits)
		case c.Op == backend.Count && (allowed || c.Charge.Always(&c.Limits[i])):
			states[i].Add(now, hits)
		}
		s.weigh(i, states[i], &c.Limits[i], before, size(c, i), now)
	}
	return s.Decision
}

// size returns how many hits must fit limit i. A look asks whether one more hit would be denied; of a fixed window, as
// in envoyproxy/ratelimit, whether the count is above the limit.
func size(c *backend.Check, i int) uint64 {
	switch {
	case c.Op == backend.Count:
		return c.Hits
	case c.Op == backend.Refund, c.Limits[i].Algorithm == descriptors.FixedWindow:
		return 0
	}
	return 1
}

// scale weighs the limits of a check, one by one.
type scale struct {
	backend.Decision
	counts bool          // the check counts hits
	denial time.Duration // the wait of the strictest limit alone, if it denies
}

// weigh takes limit i into the decision: whether it is the strictest so far, and how long it makes the caller wait.
// before is its count when the check came, size the hits of the check, c the state that the check left behind.
func (s *scale) weigh(i int, c State, l *descriptors.Limit, before, size uint64, now Instant) {
	if !s.Allowed {
		s.weighDenial(i, c, l, before, size, now)
		return
	}
	after, capacity := c.Sum(now), l.Capacity()
	if s.counts && !Fits(after, size, capacity) { // it fitted before
		s.NextIn = max(s.NextIn, now.until(c.Until(now, capacity-size)))
	}
	if remaining := capacity - min(after, capacity); s.Strictest < 0 || remaining < s.Remaining {
		s.Strictest, s.Before, s.Remaining = i, before, remaining
		switch {
		case after > 0:
			s.ResetIn = now.until(c.Until(now, after-1))
		case l.Algorithm == descriptors.FixedWindow: // as envoyproxy/ratelimit has it
			width := micros(l.Window)
			s.ResetIn = now.until(Instant(now.index(width)+1) * width)
		default:
			s.ResetIn = 0
		}
	}
}

// weighDenial weighs a limit of a denied check. One that admitted it makes the caller wait, too, if it charged the
// check all the same and is full now.
func (s *scale) weighDenial(i int, c State, l *descriptors.Limit, before, size uint64, now Instant) {
	retry, reset, capacity := backend.Never, time.Duration(0), l.Capacity()
	if size <= capacity {
		retry = now.until(c.Until(now, capacity-size))
		reset = retry
	} else if reset = now.until(c.Until(now, 0)); reset == 0 {
		reset = l.Window
	}
	if !Fits(before, size, capacity) && (s.Strictest < 0 || retry > s.denial) {
		s.Strictest, s.Before, s.denial = i, before, retry
	}
	s.RetryIn, s.ResetIn = max(s.RetryIn, retry), max(s.ResetIn, reset)
}

// Fits reports whether size more hits stay within n, without overflow.
func Fits(before, size, n uint64) bool { return before <= n && size <= n-before }

// until returns the time from t to a later moment.
func (t Instant) until(later Instant) time.Duration {
	return time.Duration(min(later-t, math.MaxInt64/1000)) * time.Microsecond
}

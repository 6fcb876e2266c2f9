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

// Count is the count of one limit of one key: a [State], or an oracle of tests. Calls may step back in time; what then
// lies in the future moves to now.
type Count interface {
	// Sum is the number of hits that count at now.
	Sum(now Instant) uint64
	// Add counts delta hits at now; a negative delta takes back the newest, at most all of them.
	Add(now Instant, delta int64)
	// Until is the first moment, now or later, at which at most keep of the hits that count now still do.
	Until(now Instant, keep uint64) Instant
}

// Decide rules on a check as its Op says; counts[i] is the state of limit i.
func Decide(counts []Count, c *backend.Check, now Instant) backend.Decision {
	switch c.Op {
	case backend.Look:
		return Look(counts, c.Limits, now)
	case backend.Refund:
		return Refund(counts, c.Limits, c.Hits, now)
	}
	return Charge(counts, c.Limits, c.Hits, c.Charge, now)
}

// Charge asks whether hits more fit every limit; counts[i] is the state of limits[i]. If all admit them, all count
// them; if not, only the limits that charge always do.
func Charge(counts []Count, limits []descriptors.Limit, hits uint64, charge descriptors.Charge, now Instant) (
	d backend.Decision) {
	admitted := true
	for i := range limits {
		admitted = admitted && fits(counts[i].Sum(now), hits, limits[i].Capacity())
	}
	s := begun(admitted)
	s.counts = true
	for i := range limits {
		before := counts[i].Sum(now)
		if admitted || charge.Always(&limits[i]) {
			counts[i].Add(now, int64(min(hits, MaxCount)))
		}
		s.weigh(i, counts[i], &limits[i], before, hits, now)
	}
	return s.Decision
}

// Look asks whether a limit is reached and changes nothing. A limit is over iff one more hit would be denied; a fixed
// window, as in envoyproxy/ratelimit, iff the count is above the limit.
func Look(counts []Count, limits []descriptors.Limit, now Instant) backend.Decision {
	passes := true
	for i := range limits {
		passes = passes && fits(counts[i].Sum(now), lookSize(&limits[i]), limits[i].Capacity())
	}
	s := begun(passes)
	for i := range limits {
		s.weigh(i, counts[i], &limits[i], counts[i].Sum(now), lookSize(&limits[i]), now)
	}
	return s.Decision
}

// Refund takes hits back from every limit, the newest first, never below zero. It is always allowed.
func Refund(counts []Count, limits []descriptors.Limit, hits uint64, now Instant) backend.Decision {
	s := begun(true)
	for i := range limits {
		before := counts[i].Sum(now)
		counts[i].Add(now, -int64(min(hits, MaxCount)))
		s.weigh(i, counts[i], &limits[i], before, 0, now)
	}
	return s.Decision
}

// scale weighs the limits of a check, one by one.
type scale struct {
	backend.Decision
	counts bool          // the check counts hits
	denial time.Duration // the wait of the strictest limit alone, if it denies
}

// begun returns a scale that has seen no limit yet.
func begun(allowed bool) scale {
	return scale{Decision: backend.Decision{Allowed: allowed, Strictest: -1}}
}

// weigh takes limit i into the decision: whether it is the strictest so far, and how long it makes the caller wait.
// before is its count when the check came, size the hits of the check, c the state that the check left behind.
func (s *scale) weigh(i int, c Count, l *descriptors.Limit, before, size uint64, now Instant) {
	if !s.Allowed {
		s.weighDenial(i, c, l, before, size, now)
		return
	}
	after, capacity := c.Sum(now), l.Capacity()
	if s.counts && !fits(after, size, capacity) { // it fitted before
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
func (s *scale) weighDenial(i int, c Count, l *descriptors.Limit, before, size uint64, now Instant) {
	retry, reset, capacity := backend.Never, time.Duration(0), l.Capacity()
	if size <= capacity {
		retry = now.until(c.Until(now, capacity-size))
		reset = retry
	} else if reset = now.until(c.Until(now, 0)); reset == 0 {
		reset = l.Window
	}
	if !fits(before, size, capacity) && (s.Strictest < 0 || retry > s.denial) {
		s.Strictest, s.Before, s.denial = i, before, retry
	}
	s.RetryIn, s.ResetIn = max(s.RetryIn, retry), max(s.ResetIn, reset)
}

// fits reports whether size more hits stay within n, without overflow.
func fits(before, size, n uint64) bool { return before <= n && size <= n-before }

// lookSize returns the size of the check that a look stands for.
func lookSize(l *descriptors.Limit) uint64 {
	if l.Algorithm == descriptors.FixedWindow {
		return 0
	}
	return 1
}

// until returns the time from t to a later moment.
func (t Instant) until(later Instant) time.Duration {
	return time.Duration(min(later-t, math.MaxInt64/1000)) * time.Microsecond
}

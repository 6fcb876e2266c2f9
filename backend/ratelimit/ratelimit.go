// Package ratelimit has the arithmetic of envoyproxy/ratelimit's keys, which are counted by INCRBY in Redis and by incr
// in memcached. Each key holds the hits of one fixed window, by the clock of the process. The package computes names
// and TTLs of keys, and decides checks by counts; it talks to no server.
package ratelimit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Keys configures the TTL of keys, and the length of a month.
type Keys struct {
	// Jitter bounds the random seconds that are added to a key's TTL, which are fewer than Jitter. 0 or less adds none.
	Jitter int64
	// CalendarMonths makes windows of a month begin on the first day of each month, in UTC. Else a month has 30 days,
	// counted from 1970 on.
	CalendarMonths bool
}

// Window is a fixed window that contains a moment.
type Window struct {
	Begin    int64         // Unix time
	TimeLeft time.Duration // from the moment to the window's end
	ttl      int64         // TTL of its key in seconds, without jitter
}

// Window returns the window of a limit that contains now.
func (k Keys) Window(l *descriptors.Limit, now time.Time) Window {
	if k.CalendarMonths && l.Unit == descriptors.Month {
		y, m, _ := now.UTC().Date()
		begin := time.Date(y, m, 1, 0, 0, 0, 0, time.UTC)
		end := begin.AddDate(0, 1, 0)
		return Window{Begin: begin.Unix(), TimeLeft: end.Sub(now), ttl: end.Unix() - now.Unix()}
	}
	width, second := int64(l.Window/time.Second), now.Unix()
	into := (second%width + width) % width // also before 1970
	begin := second - into
	return Window{Begin: begin, TimeLeft: time.Unix(begin, 0).Add(l.Window).Sub(now), ttl: width}
}

// AppendKey appends the name of the window's key, given the stem that descriptors.RatelimitKey returns.
func (w Window) AppendKey(dst, stem []byte) []byte {
	return strconv.AppendInt(append(dst, stem...), w.Begin, 10)
}

// TTL returns the TTL of the window's key in seconds, with another jitter each time. It may be called by any number of
// goroutines.
func (k Keys) TTL(w Window) int64 {
	if k.Jitter <= 0 {
		return w.ttl
	}
	return w.ttl + rand.Int64N(min(k.Jitter, math.MaxInt32)) // Redis adds the TTL to the Unix time, in 64 bits
}

// Windows returns the current window of every unit, and only one of those that begin at the same time, as they have the
// same key.
func Windows(now time.Time) (all []Window) {
	for _, u := range descriptors.Units() {
		l := descriptors.Limit{Unit: u, Window: u.Duration()}
		for _, k := range []Keys{{}, {CalendarMonths: true}} {
			w := k.Window(&l, now)
			if !slices.ContainsFunc(all, func(other Window) bool { return other.Begin == w.Begin }) {
				all = append(all, w)
			}
		}
	}
	return all
}

// Validate returns an error if a check has a key of envoyproxy/ratelimit but not exactly one limit, a fixed window that
// is always charged.
func Validate(checks []backend.Check) error {
	for i := range checks {
		c := &checks[i]
		_, ratelimits := descriptors.RatelimitKey(c.Key)
		if ratelimits && (len(c.Limits) != 1 || c.Limits[0].Algorithm != descriptors.FixedWindow || !c.Charge.Always(&c.Limits[0])) {
			return fmt.Errorf("backend: a check with a key of envoyproxy/ratelimit, which cannot count it under %v", c.Limits)
		}
	}
	return nil
}

// Counts reads the count of each limit in its current window.
func (k Keys) Counts(limits []descriptors.Limit, clock func() time.Time, read func(Window) (int64, error)) ([]backend.LimitCount, error) {
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		now := clock()
		w := k.Window(&limits[i], now)
		n, err := read(w)
		if err != nil {
			return nil, err
		}
		counts[i] = backend.LimitCount{Limit: limits[i], Hits: hitsOf(n), Levels: [][]backend.Bucket{nil}}
		if c := &counts[i]; c.Hits > 0 {
			begin := time.Unix(w.Begin, 0).UTC()
			c.ResetIn, c.Levels[0] = w.TimeLeft, []backend.Bucket{{Begin: begin, Width: now.Add(w.TimeLeft).Sub(begin), Hits: c.Hits}}
		}
	}
	return counts, nil
}

// Delta returns the number that a check adds to its key. Its size is at most window.MaxCount, so that it does not
// overflow.
func Delta(c *backend.Check) int64 {
	hits := int64(min(c.Hits, window.MaxCount))
	switch c.Op {
	case backend.Look:
		return 0
	case backend.Refund:
		return -hits
	}
	return hits
}

// Correction returns the number that a check must add to its key to bring it back to 0 or window.MaxCount, if it added
// delta and left the key at after. The correction is at most delta, as other checks correct their own.
func Correction(delta, after int64) int64 {
	switch {
	case delta < 0 && after < 0:
		return min(-delta, -max(after, -math.MaxInt64))
	case delta > 0 && after > window.MaxCount:
		return -min(delta, after-window.MaxCount)
	}
	return 0
}

// Decide decides a check that left its key at after, as package window does. The check has one limit, a fixed window
// that charges always and ends after timeLeft.
func Decide(c *backend.Check, after int64, timeLeft time.Duration) backend.Decision {
	delta, capacity := Delta(c), c.Limits[0].Capacity()
	before := hitsOf(after - delta)
	d := backend.Decision{Before: before, ResetIn: timeLeft}
	var size uint64 // hits that have to fit
	if c.Op == backend.Count {
		size = c.Hits
	}
	if c.Op != backend.Refund && !window.Fits(before, size, capacity) {
		if d.RetryIn = timeLeft; size > capacity {
			d.RetryIn = backend.Never
		}
		return d
	}
	now := hitsOf(int64(before) + delta)
	d.Allowed, d.Remaining = true, capacity-min(now, capacity)
	if c.Op == backend.Count && !window.Fits(now, size, capacity) {
		d.NextIn = timeLeft
	}
	return d
}

// hitsOf converts the number of a key to hits. The number may be below 0 before a refund is corrected.
func hitsOf(n int64) uint64 { return uint64(min(max(n, 0), window.MaxCount)) }

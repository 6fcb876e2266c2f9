package backend

import (
	"cmp"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Lease asks for a lease or settles one, and holds the store's answer. A lease is hits that a store has charged to the
// current finest bucket, under all limits of the check, for a process to admit by itself: for MaxLeaseTime, but not
// beyond the end of the first of these buckets by the store's clock. A bucket counts as a whole until its end has left
// the window, so leased hits count long enough whenever they are used in it.
//
// A Count may ask for a lease. A Refund with 0 hits settles one. The limit holds as long as, from each bucket on, at least
// as many hits are charged as are used or leased. So an ordinary refund takes no leased hits of the live bucket.
type Lease struct {
	// Want is how many hits a Count asks for besides its own. If the check is admitted, the store grants the least of Want
	// and, for each limit, remaining/Share - Abandoned, where remaining is what the check left of the limit. Share, a
	// divisor, is at least 1; Abandoned is the hits of this process's earlier leases that nobody will use and that may
	// still count. The store grants nothing if the result is below MinLeaseHits or Want/4: the limit may then be full
	// before the lease ends.
	Want, Share, Abandoned uint64

	// Granted is the hits of the lease that a Refund settles; Unused of them are returned. The store takes these out of
	// the buckets that were current at ChargedAt, by its clock, if they still are, or if no bucket between then and now
	// has hits. Else, or if the key has another state, it returns nothing, and the hits leave with their window.
	Granted, Unused uint64
	ChargedAt       time.Time

	// State identifies a key's state until the state is removed. A Count sends a random number, which a state without one
	// adopts. A settlement sends that of its lease. The store sets State to the state's number; 0 if it has none, or if
	// nothing was granted.
	State uint64

	// The store's answer; zero if the check has no answer.

	Hits     uint64    // granted
	Returned uint64    // part of Unused that was returned under every limit
	Now      time.Time // when the store decided, by its clock
}

const (
	// MinLeaseHits is the least number of hits in a lease.
	MinLeaseHits = 8
	// MaxLeaseTime is the longest life of a lease, and so the greatest age of a count that it answers from.
	MaxLeaseTime = time.Second
	// SettleTime is how long after its end a lease is settled at the latest, if its store answers.
	SettleTime = 100 * time.Millisecond
)

// TimeLeft returns the time from Now until the end of the first bucket in which a lease under these limits is charged.
func (l *Lease) TimeLeft(limits []descriptors.Limit) time.Duration {
	rest := LeaseSpan(limits)
	for i := range limits {
		width := finestWidth(&limits[i])
		rest = min(rest, width-time.Duration(l.Now.UnixMicro())*time.Microsecond%width)
	}
	return rest
}

// LeaseSpan returns the width of the narrowest bucket of some limits.
func LeaseSpan(limits []descriptors.Limit) time.Duration {
	span := limits[0].Window
	for i := range limits {
		span = min(span, finestWidth(&limits[i]))
	}
	return span
}

// finestWidth returns the width of a window's finest buckets.
func finestWidth(l *descriptors.Limit) time.Duration { return cmp.Or(l.Precision, l.Window) }

// MayLease reports whether a check may ask for a lease: a count under windows that count what they admit.
func (c *Check) MayLease() bool {
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Algorithm != descriptors.SlidingWindow && l.Algorithm != descriptors.FixedWindow || c.Charge.Always(l) {
			return false
		}
	}
	return c.Op == Count
}

package backend

import (
	"cmp"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Lease is what a check asks about leases, and what a store answers. A lease is hits that a store has charged to the
// finest bucket of now, under all limits of the check, for a process to admit by itself: for MaxLeaseTime, but no longer
// than until the first of these buckets is over by the store's clock. All of a bucket counts until its end has left the
// window, so hits that are used anywhere in it count as long as they must.
//
// A Count may ask for a lease. A Refund of no hits settles one.
type Lease struct {
	// Want is how many hits a Count wants besides its own. If it is admitted, the store grants as many, but of each limit
	// at most what remains after the check divided by Share, which is at least 1, less Abandoned: hits of earlier leases of
	// this process that nobody will use and that may still count. It grants none if these are less than MinLeaseHits, or
	// than a quarter of Want: then the limit may be full before the lease ends.
	Want, Share, Abandoned uint64

	// Granted is the hits of the lease that a Refund settles, of which nobody will use Unused. The store takes these out of
	// the buckets that were live at ChargedAt, by its clock, if these are now's, or nothing was counted between them and
	// now's. Else, and if the key's state is another, it takes nothing, and they leave with their window.
	Granted, Unused uint64
	ChargedAt       time.Time

	// State is the identity of a key's state, which ends with it. A Count gives a random one, which the state takes if it
	// has none. A settlement names that of the lease. The answer is the state's; 0 if it has none, or granted nothing.
	State uint64

	// The store's answer; zero where the check has none.

	Hits     uint64    // granted
	Returned uint64    // of Unused, under each limit at least
	Now      time.Time // the store's, when it decided
}

const (
	// MinLeaseHits is how many hits a lease has at least.
	MinLeaseHits = 8
	// MaxLeaseTime is how long a lease lasts at most, so that no answer out of one is older.
	MaxLeaseTime = time.Second
	// SettleTime is how long after its end a lease is settled at the latest, if its store answers.
	SettleTime = 100 * time.Millisecond
)

// Lasts returns for how long the buckets last in which a lease of some limits is charged that is granted at Now.
func (l *Lease) Lasts(limits []descriptors.Limit) time.Duration {
	rest := LeaseSpan(limits)
	for i := range limits {
		width := narrowest(&limits[i])
		rest = min(rest, width-time.Duration(l.Now.UnixMicro())*time.Microsecond%width)
	}
	return rest
}

// LeaseSpan returns the width of the narrowest bucket of some limits.
func LeaseSpan(limits []descriptors.Limit) time.Duration {
	span := limits[0].Window
	for i := range limits {
		span = min(span, narrowest(&limits[i]))
	}
	return span
}

// narrowest returns the width of a window's finest buckets.
func narrowest(l *descriptors.Limit) time.Duration { return cmp.Or(l.Precision, l.Window) }

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

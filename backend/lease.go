package backend

import (
	"cmp"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Lease is what a check asks about leases, and what a store answers. A lease is hits that a store has charged to the
// finest bucket of now, under all limits of the check, for a process to admit by itself until the first of these
// buckets is over by the store's clock. All of a bucket counts until its end has left the window, so hits that are used
// anywhere in it count as long as they must.
type Lease struct {
	// Want is how many hits are wanted besides those of the check, a Count. If the check is admitted, the store grants as
	// many, but of each limit at most what remains after the check divided by Share, which is at least 1, less Stranded:
	// hits of earlier leases of this process that nobody will use and that still count. It grants none if these are less
	// than MinLeaseHits.
	Want, Share, Stranded uint64
	// Granted is the hits of an earlier lease of the key that is over, under limits of the same states; 0 if there is none
	// to settle. Nobody will use Unused of them: they are to be taken out of the buckets that were live at ChargedAt, by
	// the store's clock. The store does so before it decides, if these are now's buckets, or nothing was counted between
	// them and now's. Else they leave with their window.
	Granted, Unused uint64
	ChargedAt       time.Time

	// The store's answer; zero where the check has none.

	Hits     uint64    // granted
	Returned uint64    // of Unused, under each limit at least
	Now      time.Time // the store's, when it decided
}

// MinLeaseHits is how many hits a lease has at least.
const MinLeaseHits = 8

// MaxLeaseTime is how long a lease lasts at most: longer ones would hold more for hardly fewer questions.
const MaxLeaseTime = time.Minute

// Lasts returns for how long a lease of some limits that is granted at Now lasts.
func (l *Lease) Lasts(limits []descriptors.Limit) time.Duration {
	rest := LeaseSpan(limits)
	for i := range limits {
		width := narrowest(&limits[i])
		rest = min(rest, width-time.Duration(l.Now.UnixMicro())*time.Microsecond%width)
	}
	return rest
}

// LeaseSpan returns how long a lease of some limits lasts at most: the width of their narrowest bucket.
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

// Package denials keeps the last denial and the number of denials of each rule, to answer "why was this denied?", and
// the newest denials of all rules by minute and descriptor, to answer "was ann denied at 02:40?". The newest can be
// stored, and restored by the next process. [Log] logs a sample of denials. Begin to read at [Recorder].
//
// Denials that shadow mode let through are counted separately. Memory is bounded: one denial for each rule in force or
// removed minutes ago, and 8,192 of the newest in 3 MiB. Values of descriptors may be personal: they are returned only
// on request.
package denials

import (
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Denial is one descriptor of a request that was denied, under the limit that denied it.
type Denial struct {
	At       time.Time
	Limit    descriptors.Limit // the strictest of those that were reached
	Override bool              // the limit came with the request
	Quota    bool              // denied together with all other quotas of the request
	Hits     uint64            // requested; 0 for a look
	Count    uint64            // hits under the limit just before; 0 if nothing was counted
	RetryIn  time.Duration     // from At until a check of this size would pass, or backend.Never
	Source   backend.Source    // the store, the deny cache or whatever else decided
}

// FromCheck returns the denial of a check, given its decision. The caller sets Override and Quota.
func FromCheck(at time.Time, c *backend.Check, d *backend.Decision) Denial {
	return Denial{At: at, Limit: c.Limits[d.Strictest], Hits: c.Hits, Count: d.Before, RetryIn: d.RetryIn, Source: d.Source}
}

// RetryAfter returns how long, from now, the denied check would still be denied: backend.Never, or at least 0.
func (d *Denial) RetryAfter(now time.Time) time.Duration {
	if d.RetryIn == backend.Never {
		return backend.Never
	}
	return max(0, d.RetryIn-max(0, now.Sub(d.At)))
}

// Summary sums up the denials of a rule or, if Shadow, the requests that it would have denied.
type Summary struct {
	Domain, Path string // the stored form; descriptors.UnmatchedPath for overrides without a rule
	Shadow       bool   // nothing was denied, as the rule or the process is in shadow mode
	Last         Denial // the last, or one less than a millisecond older
	Descriptor   string // of Last, as weir call reads it, cut to MaxDescriptor; "" unless values were requested
	// Requests and Hits were over the limit since the process began, or since the rule was added. A request counts once
	// for each of its descriptors that was over.
	Requests, Hits uint64
	// Only Recent sets these. Its Requests and Hits are those of one minute.
	First       time.Time // the first denial
	Descriptors int       // how many descriptors were denied
	Weir        string    // the weir that stored it before this process began; "" for this process
}

// MaxDescriptor is how many bytes of a descriptor are stored. A longer one is cut, and ends in an ellipsis.
const MaxDescriptor = 512

// Package denials keeps, for each rule, the last request that it denied, and how many there were: the answer to "why
// was this denied?"; and, of all rules together, the newest denials by minute and descriptor: the answer to "was ann
// denied at 02:40?", which can be stored and restored by the next process. It logs a sample of them. Read it from [Recorder]
// downwards.
//
// Denials that shadow mode let through are kept apart. Memory is bounded: of each rule in force, and of one that is gone
// for some minutes longer, one denial; of the newest, a number and their bytes. Values of descriptors may be personal:
// they are handed out only to those who ask for them.
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
	Override bool              // the request brought the limit with it
	Quota    bool              // denied together with all other quotas of the request
	Hits     uint64            // asked for; 0 of one that only looked
	Count    uint64            // hits that counted under the limit just before; 0 if nobody counted
	RetryIn  time.Duration     // from At, until a check of this size would pass, or backend.Never
	Source   backend.Source    // who decided
}

// Of returns the denial of a check, given its decision. The caller knows whose the limit is.
func Of(at time.Time, c *backend.Check, d *backend.Decision) Denial {
	return Denial{At: at, Limit: c.Limits[d.Strictest], Hits: c.Hits, Count: d.Before, RetryIn: d.RetryIn, Source: d.Source}
}

// RetryAfter returns how long, from now, the denied check would still be denied: backend.Never, or at least 0.
func (d *Denial) RetryAfter(now time.Time) time.Duration {
	if d.RetryIn == backend.Never {
		return backend.Never
	}
	return max(0, d.RetryIn-max(0, now.Sub(d.At)))
}

// Summary is what is known about a rule that has denied requests, or, Shadow, would have.
type Summary struct {
	Domain, Path string // as it is stored, descriptors.UnmatchedPath for limits that requests bring without any rule
	Shadow       bool   // it denies nothing, as it or the whole process is in shadow mode
	Last         Denial // or one that is less than a millisecond older
	Descriptor   string // of the last, as weir call reads it, cut to MaxDescriptor; "" unless values were asked for
	// Requests and Hits were over the limit since the process began, or since the rule came back after it was forgotten. A
	// request counts once for each of its descriptors that was over.
	Requests, Hits uint64
	// Of Recent alone, which counts Requests and Hits of a minute: when the first of these was, and of how many descriptors.
	First       time.Time
	Descriptors int
	Weir        string // that stored it before this process began; "" of this process
}

// MaxDescriptor is how many bytes of a descriptor are kept. One that is longer ends in an ellipsis.
const MaxDescriptor = 512

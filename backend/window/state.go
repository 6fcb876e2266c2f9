package window

import (
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// State is the count of one limit of one key as a store keeps it: [Cells], or [Tokens] of a token bucket. It is not for
// concurrent use. Make one with [NewState] or [ReadState]. Calls may step back in time; what then lies in the future
// moves to now.
type State interface {
	// Sum is the number of hits that count at now.
	Sum(now Instant) uint64
	// Add counts delta hits at now; a negative delta takes back the newest, at most all of them.
	Add(now Instant, delta int64)
	// Until is the first moment, now or later, at which at most keep of the hits that count now still do.
	Until(now Instant, keep uint64) Instant
	// Matches reports whether this is the state of limit l: the same algorithm, window and precision, whatever its
	// requests.
	Matches(l *descriptors.Limit) bool
	// SetRate lets the hits that count leak at the rate of l, which matches, from now on.
	SetRate(l *descriptors.Limit, now Instant)
	// Peek returns what a look under l, which matches, would find at now, and changes nothing: the hits that count, and
	// the time until the oldest bucket of them leaves, or the next of them leaks; 0 if none counts.
	Peek(l *descriptors.Limit, now Instant) (uint64, time.Duration)
	// Expires is the first moment from which nothing in the state counts, 0 if nothing does now.
	Expires() Instant
	// Len is how many buckets, or instants of a log, hold hits. Of a token bucket it is 1 while anything counts.
	Len() int
	// Append writes the state for [ReadState].
	Append(dst []byte) []byte
}

// NewState returns the empty state of a limit.
func NewState(l *descriptors.Limit) State {
	if l.Algorithm == descriptors.TokenBucket {
		return NewTokens(l)
	}
	return &Cells{window: l.Window, bucket: resolutionOf(l.Algorithm, l.Precision)}
}

// sound reports whether an identity is one that a limit can have.
func sound(a descriptors.Algorithm, window, precision time.Duration) bool {
	switch a {
	case descriptors.FixedWindow, descriptors.SlidingLog, descriptors.TokenBucket:
		return window >= time.Second && precision == 0
	case descriptors.SlidingWindow:
		return window >= time.Second && precision < window && precision%time.Millisecond == 0 &&
			precision > 0 && precision/time.Millisecond < time.Duration(microseconds)
	}
	return false
}

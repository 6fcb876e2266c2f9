package script

import (
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// This file has all that depends on the algorithm, besides its part of the script. A new algorithm needs a line in each
// declaration.

// algorithms are their parts of the script, except for sliding windows, which the script makes only when one is used.
var algorithms = []string{"fixed_window", "token_bucket", "sliding_log"}

// step returns what the script counts a limit by: the width of its finest bucket in microseconds, or, of a token bucket,
// the hits that leak in a window.
func step(l *descriptors.Limit) uint64 {
	if l.Algorithm == descriptors.TokenBucket {
		return max(1, l.Requests) // see window.NewState
	}
	return micros(l.Levels()[0])
}

// letters begin the names of fields.
var letters = [...]byte{
	descriptors.SlidingWindow: 's', descriptors.FixedWindow: 'f', descriptors.SlidingLog: 'l', descriptors.TokenBucket: 't',
}

// appendName appends the name of a limit's field. State belongs to (algorithm, window, precision), so the name holds
// these, with the seconds of the window in base 36: f1o is a fixed window of a minute, t1o a token bucket, s2s0m a
// sliding window of an hour with buckets of a minute, l1o a log of a minute.
func appendName(dst []byte, l *descriptors.Limit) []byte {
	dst = strconv.AppendInt(append(dst, letters[l.Algorithm]), int64(l.Window/time.Second), 36)
	if l.Algorithm == descriptors.SlidingWindow {
		dst = append(dst, precisionNames[l.Precision]...)
	}
	return dst
}

// Count returns what a key's hash holds for the limit of a window at now. A field that is none of weir's counts nothing.
func Count(fields map[string]string, l *descriptors.Limit, now time.Time) backend.LimitCount {
	c := backend.NewLimitCount(*l, buckets(fields, l, window.At(now)), now)
	c.Leased = leased(fields[headerField(l)], l, window.At(now))
	return c
}

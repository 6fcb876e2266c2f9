package script

import (
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// This file has all Go code that depends on the algorithm. A new algorithm needs a line in each declaration, and a part
// of the script.

// algorithms has the algorithms' parts of the script, except that of sliding windows, which body adds.
var algorithms = []string{"fixed_window", "token_bucket", "sliding_log"}

// step returns the width of a limit's finest bucket in microseconds or, for a token bucket, the hits that leak in a
// window.
func step(l *descriptors.Limit) uint64 {
	if l.Algorithm == descriptors.TokenBucket {
		return max(1, l.Requests) // see window.NewState
	}
	return micros(l.Levels()[0])
}

// letters has the first letter of the fields' names.
var letters = [...]byte{
	descriptors.SlidingWindow: 's', descriptors.FixedWindow: 'f', descriptors.SlidingLog: 'l', descriptors.TokenBucket: 't',
}

// appendName appends the name of a limit's field, made of its algorithm, its window in seconds in base 36, and its
// precision: f1o is a fixed window of a minute, t1o a token bucket, l1o a log of a minute, s2s0m a sliding window of an
// hour with buckets of a minute.
func appendName(dst []byte, l *descriptors.Limit) []byte {
	dst = strconv.AppendInt(append(dst, letters[l.Algorithm]), int64(l.Window/time.Second), 36)
	if l.Algorithm == descriptors.SlidingWindow {
		dst = append(dst, precisionNames[l.Precision]...)
	}
	return dst
}

// Count returns the count of a window's limit at now, from the fields of a key's hash. It ignores fields that are not
// weir's.
func Count(fields map[string]string, l *descriptors.Limit, now time.Time) backend.LimitCount {
	c := backend.NewLimitCount(*l, buckets(fields, l, window.At(now)), now)
	c.Leased = leased(fields[headerField(l)], l, window.At(now))
	return c
}

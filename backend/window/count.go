package window

import (
	"cmp"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Counts returns the count of each limit, for operators. It changes nothing.
func (s States) Counts(limits []descriptors.Limit, now Instant) []backend.LimitCount {
	counts := make([]backend.LimitCount, len(limits))
	for i := range limits {
		counts[i] = cmp.Or(s.Of(&limits[i]), NewState(&limits[i])).Count(&limits[i], now)
	}
	return counts
}

// Count implements [State].
func (s *Cells) Count(l *descriptors.Limit, now Instant) backend.LimitCount {
	widths := l.Levels()
	levels := make([][]backend.Bucket, len(widths))
	for begin, hits := range s.Buckets(now) {
		for i, width := range widths {
			at := int64(begin) - int64(begin)%width.Microseconds()
			levels[i] = backend.AddBucket(levels[i], backend.Bucket{Begin: time.UnixMicro(at).UTC(), Width: width, Hits: hits})
		}
	}
	c := backend.NewLimitCount(*l, levels, time.UnixMicro(int64(now)))
	if l.Algorithm == descriptors.SlidingLog {
		c.Levels = nil // the buckets of a log are instants
	}
	return c
}

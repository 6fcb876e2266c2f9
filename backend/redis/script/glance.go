package script

import (
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// HeaderField returns the name of the one field that a glance at a limit needs: the header of a sliding window or log,
// and all of a fixed window or token bucket.
func HeaderField(l *descriptors.Limit) string { return string(appendName(nil, l)) }

// Glance returns what that field, "" if there is none, tells of a limit at now. What has left a sliding window or log
// since its last check stands in its chunks: it is exact if nothing has. Its error tells of a header that is none.
func Glance(field string, l *descriptors.Limit, now window.Instant) (backend.Glance, error) {
	switch l.Algorithm {
	case descriptors.TokenBucket:
		hits, reset := peekTokens(field, l, now)
		return backend.Glance{Hits: hits, ResetIn: reset, Exact: true}, nil
	case descriptors.FixedWindow:
		c := backend.NewLimitCount(*l, fixedBuckets(field, l, now), 0, time.Time{}, time.UnixMicro(int64(now)))
		return backend.Glance{Hits: c.Hits, ResetIn: c.ResetIn, Exact: true}, nil
	case descriptors.SlidingLog:
		log, err := ReadLog(field, l)
		if err != nil {
			return backend.Glance{}, err
		}
		return log.glance(now), nil
	}
	return glanceWindow(field, l, now), nil
}

// glanceWindow reads the header of a sliding window.
func glanceWindow(header string, l *descriptors.Limit, now window.Instant) backend.Glance {
	if len(header) != 6*7 {
		return backend.Glance{Exact: true}
	}
	total, oldest, newest := number56(header), number56(header[7:]), number56(header[14:])
	live, hits := number56(header[28:]), number56(header[35:])
	width := l.Precision.Microseconds()
	first := max(0, int64(now)-l.Window.Microseconds()) / width // of the buckets that count
	g := backend.Glance{Exact: true}
	if total > 0 && newest >= first {
		g.Hits, g.Exact = uint64(total), oldest >= first
	} else {
		oldest = live
	}
	if live >= first {
		g.Hits += uint64(hits)
	}
	if g.Hits > 0 && g.Exact {
		g.ResetIn = max(0, time.Duration(oldest*width-int64(now))*time.Microsecond+l.Window+l.Precision)
	}
	return g
}

// glance reads the header, and the newest instants behind it.
func (g *Log) glance(now window.Instant) backend.Glance {
	if g.tail == "" {
		return backend.Glance{Exact: true}
	}
	oldest, base, exact := g.oldest, g.base, g.counts(g.oldest, now)
	total := uint64(number56(g.tail))
	for rest := g.tail[7:]; rest != ""; rest = rest[instant:] {
		at, upTo := window.Instant(number56(rest)), uint64(number56(rest[7:]))
		switch {
		case at < g.oldest || g.counts(at, now):
		case len(rest) > instant: // all before it have left too; the next one may be the oldest
			base, oldest, exact = upTo, window.Instant(number56(rest[instant:])), true
		default: // the newest of all has left
			return backend.Glance{Exact: true}
		}
		total = upTo
	}
	found := backend.Glance{Hits: (total - base) & window.MaxCount, Exact: exact}
	if found.Hits > 0 && exact {
		found.ResetIn = time.Duration(min(oldest, now)-now)*time.Microsecond + g.limit.Window
	}
	return found
}

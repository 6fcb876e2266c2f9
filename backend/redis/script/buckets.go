package script

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Count returns what a key's hash holds for a limit at now. A field that is none of weir's counts nothing.
func Count(fields map[string]string, l *descriptors.Limit, now time.Time) backend.LimitCount {
	if l.Algorithm != descriptors.TokenBucket {
		return backend.NewLimitCount(*l, Buckets(fields, l, window.At(now)), now)
	}
	c := backend.LimitCount{Limit: *l}
	c.Hits, c.ResetIn = peekTokens(fields[HeaderField(l)], l, window.At(now))
	return c
}

// peekTokens returns what the field of a token bucket says at now.
func peekTokens(field string, l *descriptors.Limit, now window.Instant) (hits uint64, reset time.Duration) {
	if len(field) != 4*7 {
		return 0, 0
	}
	tokens, sound := window.RestoreTokens(l.Window, uint64(number56(field)), window.Instant(number56(field[7:])),
		window.Instant(number56(field[14:])), uint64(number56(field[21:])))
	if !sound {
		return 0, 0
	}
	return tokens.Peek(l, now)
}

// Buckets lists the buckets of a limit that count at now, the finest level first, and on each the oldest bucket first.
// A coarse bucket has those of its hits that count. A token bucket has none.
func Buckets(fields map[string]string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	header := fields[HeaderField(l)]
	if l.Algorithm == descriptors.FixedWindow {
		return fixedBuckets(header, l, now)
	}
	levels := l.Levels()
	out := make([][]backend.Bucket, len(levels))
	if len(levels) == 0 || len(header) != 6*7 {
		return out
	}
	total, newest := number56(header), number56(header[14:])
	oldest := max(number56(header[7:]), int64(now.Plus(-l.Window))/levels[0].Microseconds())
	var above []backend.Bucket
	for level := len(levels) - 1; level >= 0 && total > 0 && oldest <= newest; level-- {
		per := int64(levels[level] / levels[0])
		out[level] = chunkBuckets(fields, l, level, oldest/per, newest/per, above)
		above = out[level]
	}
	edges(out)
	addLive(out, levels, number56(header[28:]), number56(header[35:]), now.Plus(-l.Window))
	return out
}

// edges counts the oldest and the newest bucket of each coarser level by what stands below them: the oldest still holds
// what has left the window, and the newest is not written yet.
func edges(out [][]backend.Bucket) {
	for level := 1; level < len(out); level++ {
		last := len(out[level]) - 1
		for i := range out[level] {
			if i == 0 || i == last {
				out[level][i].Hits = within(&out[level][i], out[level-1])
			}
		}
		out[level] = slices.DeleteFunc(out[level], func(b backend.Bucket) bool { return b.Hits == 0 })
	}
}

// within sums the hits of those buckets that lie in a coarser one.
func within(coarse *backend.Bucket, buckets []backend.Bucket) (hits uint64) {
	end := coarse.Begin.Add(coarse.Width)
	for _, b := range buckets {
		if !b.Begin.Before(coarse.Begin) && b.Begin.Before(end) {
			hits += b.Hits
		}
	}
	return hits
}

// addLive puts the hits of the live bucket, which are in no chunk yet, where they belong on each level.
func addLive(out [][]backend.Bucket, levels []time.Duration, at, hits int64, from window.Instant) {
	begin := time.UnixMicro(at * levels[0].Microseconds()).UTC()
	if end := begin.Add(levels[0]); hits == 0 || window.At(end) <= from {
		return
	}
	for level, width := range levels {
		b := backend.Bucket{Begin: begin.Truncate(width), Width: width, Hits: uint64(hits)}
		if last := len(out[level]) - 1; last >= 0 && out[level][last].Begin.Equal(b.Begin) {
			out[level][last].Hits += b.Hits
			continue
		}
		out[level] = append(out[level], b)
	}
}

func fixedBuckets(header string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	if len(header) != 2*7 {
		return [][]backend.Bucket{nil}
	}
	begin := window.Instant(number56(header)) * window.Instant(l.Window.Microseconds())
	hits := number56(header[7:])
	if hits == 0 || begin.Plus(l.Window) <= now {
		return [][]backend.Bucket{nil}
	}
	return [][]backend.Bucket{{{Begin: time.UnixMicro(int64(begin)).UTC(), Width: l.Window, Hits: uint64(hits)}}}
}

// chunkBuckets returns the buckets of a level from first to last. Below the coarsest level only chunks of the buckets
// above count. The last bucket of a coarser level is always among them, as it is not written yet.
func chunkBuckets(fields map[string]string, l *descriptors.Limit, level int, first, last int64, above []backend.Bucket) []backend.Bucket {
	width, fan := l.Levels()[level], int64(fan(l.Levels(), level))
	var chunks []int64
	if level+1 < len(l.Levels()) {
		parent := l.Levels()[level+1]
		for _, b := range above {
			chunks = append(chunks, b.Begin.UnixMicro()/parent.Microseconds())
		}
	} else {
		for number := first / fan; number <= last/fan; number++ {
			chunks = append(chunks, number)
		}
	}
	prefix := append(appendName(nil, l), '1'+byte(level))
	var out []backend.Bucket
	for _, number := range chunks {
		chunk := fields[string(binary.LittleEndian.AppendUint32(prefix[:len(prefix):len(prefix)], uint32(number)))]
		size := int64(len(chunk)) / fan
		for i := max(first, number*fan); size > 0 && i <= min(last, number*fan+fan-1); i++ {
			at := (i - number*fan) * size
			if hits := little(chunk[at : at+size]); hits > 0 || level > 0 && i == last {
				begin := time.UnixMicro(i * width.Microseconds()).UTC()
				out = append(out, backend.Bucket{Begin: begin, Width: width, Hits: uint64(hits)})
			}
		}
	}
	return out
}

func number56(s string) int64 { return little(s[:7]) }

// little reads a little-endian number.
func little(s string) (v int64) {
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | int64(s[i])
	}
	return v
}

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
		c := backend.NewLimitCount(*l, fixedBuckets(field, l, now), time.UnixMicro(int64(now)))
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

package counter

import (
	"encoding/binary"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// topFan is how many buckets of the coarsest level stand in a chunk.
const topFan = 15

// Buckets lists the buckets that a key's hash holds for a limit and that count at now, level by level, the finest
// level first and the oldest bucket of each first. A coarse bucket tells of those of its hits that count.
func Buckets(fields map[string]string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	header := fields[string(appendName(nil, l))]
	if l.Algorithm == descriptors.FixedWindow {
		return fixedBuckets(header, l, now)
	}
	levels := l.Levels()
	out := make([][]backend.Bucket, len(levels))
	if len(header) != 6*7 {
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
	addLive(out, levels, number56(header[28:]), number56(header[35:]), now.Plus(-l.Window))
	trim(out)
	return out
}

// trim takes out of the oldest bucket of each coarser level what has left the window. The script does so when the key is
// asked about next.
func trim(out [][]backend.Bucket) {
	for level := 1; level < len(out); level++ {
		if len(out[level]) == 0 {
			continue
		}
		oldest := &out[level][0]
		end := oldest.Begin.Add(oldest.Width)
		oldest.Hits = 0
		for _, b := range out[level-1] {
			if b.Begin.Before(end) {
				oldest.Hits += b.Hits
			}
		}
		if oldest.Hits == 0 {
			out[level] = out[level][1:]
		}
	}
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

// chunkBuckets are the buckets of a level from first to last. Below the coarsest level only the chunks of the buckets
// above count; others are left over.
func chunkBuckets(fields map[string]string, l *descriptors.Limit, level int, first, last int64, above []backend.Bucket) []backend.Bucket {
	width, fan := l.Levels()[level], int64(topFan)
	var chunks []int64
	if level+1 < len(l.Levels()) {
		parent := l.Levels()[level+1]
		fan = int64(parent / width)
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
			if hits := little(chunk[at : at+size]); hits > 0 {
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

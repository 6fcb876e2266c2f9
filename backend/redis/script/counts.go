package script

import (
	"encoding/binary"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// layout returns the size of a window's header without the part about leases, and the offset of its live bucket.
func layout(l *descriptors.Limit) (size, live int) {
	if l.Algorithm == descriptors.FixedWindow {
		return 2 * 7, 0
	}
	return 6 * 7, 4 * 7
}

// leased returns how many hits in the live bucket of a limit are leased at now: granted and not settled.
func leased(header string, l *descriptors.Limit, now window.Instant) uint64 {
	size, live := layout(l)
	if len(header) < size+7 || number56(header[live:]) != int64(now)/l.Levels()[0].Microseconds() {
		return 0
	}
	return uint64(number56(header[size:]))
}

// buckets returns the buckets of a window that count at now, by level, the finest first, and the oldest bucket first. A
// coarse bucket has only those of its hits that count.
func buckets(fields map[string]string, l *descriptors.Limit, now window.Instant) [][]backend.Bucket {
	header, levels := fields[headerField(l)], l.Levels()
	size, live := layout(l)
	out := make([][]backend.Bucket, len(levels))
	if len(header) < size {
		return out
	}
	finest := levels[0].Microseconds()
	count := func(number int64, hits uint64) {
		for i, width := range levels {
			begin := number*finest - number*finest%width.Microseconds()
			out[i] = backend.AddBucket(out[i], backend.Bucket{Begin: time.UnixMicro(begin).UTC(), Width: width, Hits: hits})
		}
	}
	end := now // buckets that end by then do not count
	if l.Algorithm == descriptors.SlidingWindow {
		end = now.Plus(-l.Window)
		if number56(header) > 0 {
			countChunks(fields, l, max(number56(header[7:]), int64(end)/finest), number56(header[14:]), count)
		}
	}
	number, hits := number56(header[live:]), uint64(number56(header[live+7:])) // in no chunk yet
	if hits > 0 && window.Instant((number+1)*finest) > end {
		count(number, hits)
	}
	return out
}

// countChunks calls count with the number and hits of each finest bucket from oldest to newest. A finer chunk counts
// only if the bucket above it has hits; others are garbage. The newest coarse bucket always counts, as it is not
// written yet.
func countChunks(fields map[string]string, l *descriptors.Limit, oldest, newest int64, count func(int64, uint64)) {
	levels := l.Levels()
	top := len(levels) - 1
	var chunks []int64 // the number of a chunk is that of the bucket above
	span := int64(levels[top]/levels[0]) * topFan
	for number := oldest / span; number <= newest/span; number++ {
		chunks = append(chunks, number)
	}
	prefix := append(appendName(nil, l), 0)
	for level := top; level >= 0; level-- {
		per, fan := int64(levels[level]/levels[0]), int64(fan(levels, level))
		first, last := oldest/per, newest/per
		prefix[len(prefix)-1] = '1' + byte(level)
		var below []int64
		for _, number := range chunks {
			chunk := fields[string(binary.LittleEndian.AppendUint32(prefix[:len(prefix):len(prefix)], uint32(number)))]
			size := int64(len(chunk)) / fan
			for i := max(first, number*fan); size > 0 && i <= min(last, number*fan+fan-1); i++ {
				at := (i - number*fan) * size
				switch hits := uint64(littleEndian(chunk[at : at+size])); {
				case level == 0 && hits > 0:
					count(i, hits)
				case hits > 0 || i == last:
					below = append(below, i)
				}
			}
		}
		chunks = below
	}
}

func number56(s string) int64 { return littleEndian(s[:7]) }

// littleEndian reads a little-endian number.
func littleEndian(s string) (v int64) {
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | int64(s[i])
	}
	return v
}

// headerField returns the name of the header of a sliding window or log, or of the only field of a fixed window or
// token bucket.
func headerField(l *descriptors.Limit) string { return string(appendName(nil, l)) }

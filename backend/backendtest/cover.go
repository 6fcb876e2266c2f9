package backendtest

import (
	"time"

	"github.com/weirproxy/weir/backend/window"
)

// run is a row of neighbouring buckets on one level.
type run struct {
	level int   // index into the levels given to cover
	first int64 // number of the first bucket: it begins at first × width
	count int64 // how many
}

// cover returns the buckets that together hold the hits of the last window, and no hit twice: fine ones at the trailing
// edge, whole coarse ones in the middle, the live coarse one at the leading edge, at most one run a level. The trailing
// bucket, the one that holds now − length, counts whole; no bucket that begins before it is read. The levels are
// widths, finest first, each dividing the next. It is right only if no bucket later than now holds hits.
func cover(levels []time.Duration, length time.Duration, now window.Instant) (runs []run) {
	width := micros(levels[0])
	from := window.Instant(index(now-micros(length), width)) * width
	for i := range levels {
		width = micros(levels[i])
		first, last := index(from, width), index(now, width)
		if i+1 < len(levels) {
			next := micros(levels[i+1])
			boundary := window.Instant(index(from-1, next)+1) * next
			if boundary <= now {
				if n := int64((boundary - from) / width); n > 0 {
					runs = append(runs, run{i, first, n})
				}
				from = boundary
				continue
			}
		}
		return append(runs, run{i, first, last - first + 1})
	}
	return runs
}

func micros(d time.Duration) window.Instant { return window.Instant(d.Microseconds()) }

// index returns the number of the bucket of this width that holds t; buckets are aligned to the epoch.
func index(t, width window.Instant) int64 {
	k := t / width
	if t%width < 0 {
		k--
	}
	return int64(k)
}

package window

import "time"

// Instant is a moment on a store's clock: microseconds since the Unix epoch. Microseconds, because Redis tells no finer
// time, and because a window of 292 years still fits beside it.
type Instant int64

// At converts a time, rounding down.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Plus returns the instant d later, in whole microseconds.
func (t Instant) Plus(d time.Duration) Instant { return t + micros(d) }

func micros(d time.Duration) Instant { return Instant(d / time.Microsecond) }

// index returns the number of the bucket of this width that holds t; buckets are aligned to the epoch.
func (t Instant) index(width Instant) int64 {
	k := t / width
	if t%width < 0 {
		k--
	}
	return int64(k)
}

// Run is a row of neighbouring buckets on one level.
type Run struct {
	Level int   // index into the levels given to Cover
	First int64 // number of the first bucket: it begins at First × width
	Count int64 // how many
}

// Cover appends the buckets that together hold the hits of the last window, and no hit twice: fine ones at the
// trailing edge, whole coarse ones in the middle, the live coarse one at the leading edge, at most one run a level.
// The trailing bucket, the one that holds now − window, counts whole; no bucket that begins before it is read.
// The levels are widths, finest first, each dividing the next. It is right only if no bucket later than now holds hits.
func Cover(dst []Run, levels []time.Duration, window time.Duration, now Instant) []Run {
	width := micros(levels[0])
	from := Instant((now - micros(window)).index(width)) * width
	for i := range levels {
		width = micros(levels[i])
		first, last := from.index(width), now.index(width)
		if i+1 < len(levels) {
			next := micros(levels[i+1])
			boundary := Instant((from-1).index(next)+1) * next
			if boundary <= now {
				if n := int64((boundary - from) / width); n > 0 {
					dst = append(dst, Run{i, first, n})
				}
				from = boundary
				continue
			}
		}
		return append(dst, Run{i, first, last - first + 1})
	}
	return dst
}

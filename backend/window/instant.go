package window

import "time"

// Instant is a moment on a store's clock, in microseconds since the Unix epoch. Redis has no finer time, and a window
// of 292 years fits.
type Instant int64

// At converts a time, rounding down.
func At(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Plus returns the instant d later, in whole microseconds.
func (t Instant) Plus(d time.Duration) Instant { return t + micros(d) }

func micros(d time.Duration) Instant { return Instant(d / time.Microsecond) }

// index returns the number of the bucket of this width that contains t. Buckets are aligned to the epoch.
func (t Instant) index(width Instant) int64 {
	k := t / width
	if t%width < 0 {
		k--
	}
	return int64(k)
}

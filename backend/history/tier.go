package history

import (
	"errors"
	"fmt"
	"time"
)

// Tier is a width of buckets.
type Tier uint8

// The tiers, finest first. Their numbers are stored.
const (
	Minutes Tier = iota
	FiveMinutes
	Hours
	Days
	Tiers = int(Days) + 1
)

// Lengths of time in seconds, of which those of buckets, ranges and steps are made.
const (
	Minute = 60
	Hour   = 60 * Minute
	Day    = 24 * Hour
	Week   = 7 * Day
)

// tiers has, for each tier, how wide its buckets are and how much time a chunk of them spans, in seconds. The widths
// divide each other, and a chunk of one tier lies in one chunk of the next, but for weeks, which may lie in two years.
var tiers = [Tiers]struct {
	name        string
	width, span int64
}{{"1m", Minute, Hour}, {"5m", 5 * Minute, Day}, {"1h", Hour, Week}, {"1d", Day, 0}}

// monday is the first Monday after the beginning of Unix time, where weeks are counted from.
const monday = 4 * Day

// Width returns the width of the tier's buckets, in seconds.
func (t Tier) Width() int64 { return tiers[t].width }

// String returns the tier's name: 1m, 5m, 1h or 1d.
func (t Tier) String() string { return tiers[t].name }

// Chunk is what a store keeps and moves as one: the minutes of an hour, the 5 minutes of a day, the hours of a week
// that begins on Monday, the days of a year. All are in UTC.
type Chunk struct {
	Tier   Tier
	Number int64 // since 1970; for days the year itself
}

// ChunkOf returns the chunk of a tier that holds a moment, in Unix seconds.
func ChunkOf(t Tier, at int64) Chunk {
	switch t {
	case Days:
		return Chunk{t, int64(time.Unix(at, 0).UTC().Year())}
	case Hours:
		at -= monday
	}
	return Chunk{t, floorDiv(at, tiers[t].span)}
}

// Start returns the chunk's first moment, in Unix seconds.
func (c Chunk) Start() int64 {
	switch c.Tier {
	case Days:
		return time.Date(int(c.Number), 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	case Hours:
		return c.Number*Week + monday
	}
	return c.Number * tiers[c.Tier].span
}

// End returns the first moment after the chunk, in Unix seconds.
func (c Chunk) End() int64 {
	if c.Tier == Days {
		return Chunk{Days, c.Number + 1}.Start()
	}
	return c.Start() + tiers[c.Tier].span
}

// Place returns the index in its chunk of the bucket that holds a moment, in Unix seconds.
func (c Chunk) Place(at int64) int { return int((at - c.Start()) / c.Tier.Width()) }

// At returns the first moment of a bucket of the chunk, in Unix seconds.
func (c Chunk) At(place int) int64 { return c.Start() + int64(place)*c.Tier.Width() }

// Places returns how many buckets the chunk has: at most 366.
func (c Chunk) Places() int { return c.Place(c.End()) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// WriterTTL is how long a store knows the position of a writer that it no longer hears of. A batch that is sent again
// later than that could count twice.
const WriterTTL = Week * time.Second

// Keep is how long buckets stay as fine as they are.
type Keep struct {
	// Ages are how old a bucket of each tier gets before it moves to the next; of days, before it is dropped. A chunk
	// moves as a whole, when all of it is that old.
	Ages [Tiers]time.Duration
	// MaxPoints is how many points finer than a day a series may hold before it is downsampled early.
	MaxPoints int
}

// DefaultKeep returns a Keep of a day for minutes, a week for 5 minutes, 30 days for hours, and 3650 days for days.
func DefaultKeep() Keep {
	const d = 24 * time.Hour
	return Keep{Ages: [Tiers]time.Duration{d, 7 * d, 30 * d, 3650 * d}, MaxPoints: 5000}
}

// Check returns an error that names what is wrong with it, nil if nothing is.
func (k *Keep) Check() error {
	for t := range Tiers {
		if k.Ages[t] < time.Hour {
			return fmt.Errorf("buckets of %s are to be kept for %v, and an hour is the least", Tier(t), k.Ages[t])
		}
		if t > 0 && k.Ages[t] < k.Ages[t-1] {
			return fmt.Errorf("buckets of %s are to be kept for %v, and the finer ones of %s for %v: coarser buckets are kept as long as finer ones, or longer",
				Tier(t), k.Ages[t], Tier(t-1), k.Ages[t-1])
		}
	}
	if k.MaxPoints < 1 {
		return errors.New("at least 1 point must be allowed in a series")
	}
	return nil
}

// Due returns when a chunk is moved to the next tier, in Unix seconds. For a chunk of days it returns when the first day,
// which begins at first, is dropped.
func (k *Keep) Due(c Chunk, first int64) int64 {
	age := int64(k.Ages[c.Tier] / time.Second)
	if c.Tier == Days {
		return first + Day + age
	}
	return c.End() + age
}

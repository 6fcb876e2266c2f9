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

// Durations in seconds.
const (
	Minute = 60
	Hour   = 60 * Minute
	Day    = 24 * Hour
	Week   = 7 * Day
)

// tiers has for each tier the width of its buckets and the span of its chunks, in seconds. Each width divides the next,
// and a chunk lies in one chunk of the next tier, except that a week may lie in two years.
var tiers = [Tiers]struct {
	name        string
	width, span int64
}{{"1m", Minute, Hour}, {"5m", 5 * Minute, Day}, {"1h", Hour, Week}, {"1d", Day, 0}}

// monday is the first Monday after 1970 began. Weeks are counted from it.
const monday = 4 * Day

// Width returns the width of the tier's buckets, in seconds.
func (t Tier) Width() int64 { return tiers[t].width }

// String returns the tier's name: 1m, 5m, 1h or 1d.
func (t Tier) String() string { return tiers[t].name }

// Chunk is the unit that a store reads, writes and downsamples: the minutes of an hour, the 5 minutes of a day, the
// hours of a week that begins on Monday, or the days of a year. All are in UTC.
type Chunk struct {
	Tier   Tier
	Number int64 // since 1970; for days the year itself
}

// ChunkOf returns the chunk of a tier that contains a moment, in Unix seconds.
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

// Index returns the index of the bucket that contains a moment, in Unix seconds.
func (c Chunk) Index(at int64) int { return int((at - c.Start()) / c.Tier.Width()) }

// At returns the first moment of the bucket with an index, in Unix seconds.
func (c Chunk) At(index int) int64 { return c.Start() + int64(index)*c.Tier.Width() }

// Len returns the number of buckets in the chunk: at most 366.
func (c Chunk) Len() int { return c.Index(c.End()) }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// WriterTTL is how long a store remembers the position of a writer after its last batch. A batch that is sent again
// later could count twice.
const WriterTTL = Week * time.Second

// Retention says when buckets are downsampled and dropped.
type Retention struct {
	// Ages are the ages at which buckets of each tier move to the next tier, and at which days are dropped. A chunk moves
	// as a whole, when its last bucket has that age.
	Ages [Tiers]time.Duration
	// MaxPoints is how many points finer than a day a series may have before it is downsampled early.
	MaxPoints int
}

// DefaultRetention keeps minutes for a day, 5 minutes for a week, hours for 30 days, and days for 3650 days.
func DefaultRetention() Retention {
	const d = 24 * time.Hour
	return Retention{Ages: [Tiers]time.Duration{d, 7 * d, 30 * d, 3650 * d}, MaxPoints: 5000}
}

// Check returns an error if the retention is invalid.
func (k *Retention) Check() error {
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

// Due returns when a chunk is due to move to the next tier, in Unix seconds. For a chunk of days it returns when its
// first day, which begins at first, is due to be dropped.
func (k *Retention) Due(c Chunk, first int64) int64 {
	age := int64(k.Ages[c.Tier] / time.Second)
	if c.Tier == Days {
		return first + Day + age
	}
	return c.End() + age
}

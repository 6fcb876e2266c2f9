package history

import (
	"slices"
	"time"
)

// Extent is the range and the tiers of the stored buckets of some series. It tells where a range can be cut without
// splitting a stored bucket, so that the sums between two borders are exact. The zero value is the extent of no bucket.
type Extent struct {
	first, end int64 // where the first bucket begins, and the last one ends
	coarsest   Tier
	tierEnds   [Tiers]int64 // where the last bucket of each tier ends, 0 if there is none
}

// Add adds the points of a series.
func (e *Extent) Add(points []Point) {
	for _, p := range points {
		if e.end == 0 || p.Start < e.first {
			e.first = p.Start
		}
		e.end = max(e.end, p.End())
		e.coarsest = max(e.coarsest, p.Tier)
		e.tierEnds[p.Tier] = max(e.tierEnds[p.Tier], p.End())
	}
}

// Coarsest returns the coarsest tier, minutes if there is no bucket.
func (e *Extent) Coarsest() Tier { return e.coarsest }

// Range returns the range from the first bucket to the last, and reports whether there is any.
func (e *Extent) Range() (Range, bool) { return Range{e.first, e.end}, e.end > 0 }

// widen moves a range's ends outwards to whole minutes, and to the ends of all buckets. It moves a local midnight
// inside a bucket as cutByStep does.
func (e *Extent) widen(r Range, zone *time.Location) Range {
	snapped := e.snapEnds(r, zone)
	wide := snapped.widen(Minute)
	if e.end > 0 && snapped.From == r.From {
		wide.From = min(wide.From, e.first)
	}
	if e.end > 0 && snapped.To == r.To {
		wide.To = max(wide.To, e.end)
	}
	return wide
}

// Cut is a range cut into buckets of one width.
type Cut struct {
	// Borders are the beginnings of the buckets, and the end of the last one, in Unix seconds.
	Borders []int64
	// Moved has for each tier the latest local midnight that lies inside a stored bucket of the tier, 0 if there is none.
	// Its border is at the nearest end of that bucket.
	Moved [Tiers]int64
}

// Range returns the range from the first border to the last.
func (c *Cut) Range() Range { return Range{c.Borders[0], c.Borders[len(c.Borders)-1]} }

// equal reports whether two cuts are the same.
func (c *Cut) equal(other *Cut) bool {
	return slices.Equal(c.Borders, other.Borders) && c.Moved == other.Moved
}

// roundSteps are the widths of buckets, in seconds, if only their number is requested.
var roundSteps = [...]int64{Minute, 2 * Minute, 5 * Minute, 10 * Minute, 15 * Minute, 30 * Minute, Hour, 2 * Hour, 3 * Hour,
	6 * Hour, 12 * Hour, Day, 2 * Day, Week, 2 * Week, 4 * Week, 13 * Week, 52 * Week}

// cutByNumber cuts a range, like cutByStep, into at most n buckets of the narrowest round width that allows it. n is at
// least 1. If no round width is wide enough, the result is one bucket.
func (e *Extent) cutByNumber(r Range, n int, zone *time.Location) Cut {
	coarsest := e.coarsest.Width()
	for _, step := range roundSteps {
		if step%coarsest != 0 || r.Length()/step > int64(n) {
			continue
		}
		if cut := e.cutByStep(r, step, zone); len(cut.Borders)-1 <= n {
			return cut
		}
	}
	r = e.snapEnds(r, zone).widen(coarsest)
	return Cut{Borders: []int64{r.From, r.To}}
}

// stepWidth rounds a step up to a multiple of the coarsest tier's width, so that no stored bucket is split.
func (e *Extent) stepWidth(step int64) int64 {
	coarsest := e.coarsest.Width()
	return ceilDiv(step, coarsest) * coarsest
}

// cutByStep widens a range to whole buckets of a width, a result of stepWidth, and cuts it into them. Buckets begin at
// multiples of the width since 1970, but those of whole days at midnight in the zone, and those of whole weeks on
// Monday. If midnight is not a full hour of UTC, buckets that divide a day are counted from midnight on. The last
// bucket of a day is shorter if clocks change, or if a midnight moves to the end of the stored bucket that contains it.
func (e *Extent) cutByStep(r Range, width int64, zone *time.Location) Cut {
	r = e.snapEnds(r, zone)
	uneven := midnight(dayOf(r.From, zone), zone)%Hour > 0 || midnight(dayOf(r.To, zone), zone)%Hour > 0
	if width%Day == 0 || Day%width == 0 && uneven {
		return e.cutByDays(r.widen(Minute), zone, max(width/Day, 1), width)
	}
	r = r.widen(width)
	borders := make([]int64, 0, r.Length()/width+1)
	for at := r.From; at < r.To; at += width {
		borders = append(borders, at)
	}
	return Cut{Borders: append(borders, r.To)}
}

// cutByDays cuts a range into stretches of length days, which begin on Monday if they are whole weeks. It cuts each
// stretch into buckets of a width from its beginning on.
func (e *Extent) cutByDays(r Range, zone *time.Location, length, width int64) (c Cut) {
	last := int64(0)
	add := func(border int64) {
		if border <= r.From {
			c.Borders = c.Borders[:0]
		}
		if len(c.Borders) == 0 || border > last { // equal for a date that the zone left out, or two midnights in one stored day
			c.Borders, last = append(c.Borders, border), border
		}
	}
	// A border moves by half a day at most, so the stretch before that of the range's first day begins before the range.
	for i := floorDiv(dayOf(r.From, zone)-monday/Day, length) - 1; ; i++ {
		at := midnight(monday/Day+i*length, zone)
		border, tier := e.snap(at)
		for width < Day && len(c.Borders) > 0 && last < r.To && last+width < border {
			add(last + width)
		}
		if len(c.Borders) > 0 && last >= r.To {
			return c
		}
		if border <= r.From {
			c.Moved = [Tiers]int64{}
		}
		add(border)
		if border != at {
			c.Moved[tier] = at
		}
	}
}

// snapEnds moves the ends of a range that are local midnights to the borders of days, so that a requested day is one
// bucket. It leaves the range as it is if it would be empty.
func (e *Extent) snapEnds(r Range, zone *time.Location) Range {
	snapped := r
	for _, end := range [...]*int64{&snapped.From, &snapped.To} {
		if *end == midnight(dayOf(*end, zone), zone) {
			*end, _ = e.snap(*end)
		}
	}
	if snapped.Length() <= 0 {
		return r
	}
	return snapped
}

// snap moves a midnight to the nearest border that splits no stored bucket, and returns the tier of the bucket that
// contains the midnight. Before the last bucket of a tier it assumes a bucket everywhere, so that days without hits are
// as long as others.
func (e *Extent) snap(midnight int64) (int64, Tier) {
	for t := Days; t > Minutes; t-- {
		if midnight < e.tierEnds[t] {
			width := t.Width()
			return floorDiv(midnight+width/2-1, width) * width, t
		}
	}
	return midnight, Minutes
}

// dayOf returns the local date of a moment, in days since 1970.
func dayOf(at int64, zone *time.Location) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return floorDiv(at+int64(offset), Day)
}

// midnight returns the first whole minute of a local date, or of the next one if the zone left the date out.
func midnight(date int64, zone *time.Location) int64 {
	return ceilDiv(onClock(date*Day, zone), Minute) * Minute
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// Bucket is the hits between two borders.
type Bucket struct {
	Start, End int64 // Unix seconds
	Sum        uint64
	Peak       uint64 // hits of the largest minute that is known
	Tier       Tier   // coarsest tier of its points; undefined if Sum is 0
}

// fill returns the buckets of the cut, empty ones included, with the sums of a series' points. The points must lie in
// the cut's range, and the cut must not split any of them.
func (c *Cut) fill(points []Point) []Bucket {
	buckets := make([]Bucket, len(c.Borders)-1)
	for i := range buckets {
		buckets[i].Start, buckets[i].End = c.Borders[i], c.Borders[i+1]
	}
	i := 0
	for _, p := range points {
		for i+1 < len(buckets) && p.Start >= buckets[i].End {
			i++
		}
		b := &buckets[i]
		b.Sum += p.Sum
		b.Peak = max(b.Peak, p.Peak)
		b.Tier = max(b.Tier, p.Tier)
	}
	return buckets
}

// Stored returns the sum of a series' points. For a damaged series with more than MaxTotal it returns MaxTotal+1.
func (s *Series) Stored() uint64 {
	var sum uint64
	for _, p := range s.Points {
		sum = min(sum+min(p.Sum, MaxTotal+1), MaxTotal+1)
	}
	return sum
}

// Exact reports whether the points of a series and its expired hits add up to its lifetime. The series must be the
// result of a query for [Always]. A damaged series is not exact.
func (s *Series) Exact() bool {
	return s.Err == nil && s.Expired <= MaxTotal && s.Stored()+s.Expired == s.Lifetime
}

// Range is a half-open range of time, in Unix seconds.
type Range struct{ From, To int64 }

// Always returns the range that contains every point of every series.
func Always() Range { return Range{0, (maxMinute + 1) * Minute} }

// widen moves both ends outwards to multiples of a width.
func (r Range) widen(width int64) Range {
	return Range{floorDiv(r.From, width) * width, ceilDiv(r.To, width) * width}
}

// Has reports whether a moment lies in the range.
func (r Range) Has(at int64) bool { return at >= r.From && at < r.To }

// Length returns the range's length in seconds.
func (r Range) Length() int64 { return r.To - r.From }

// Sample is the number of hits that a series had counted in its lifetime at a moment.
type Sample struct {
	At    int64 // Unix seconds
	Total uint64
}

// AppendSamples appends the series' total at the beginning and the end of each point, oldest first, each moment once.
// At these moments the totals are exact, whatever the tier. The bucket that is not over yet ends at now, in Unix
// seconds.
//
// The points must be all points of the series from some moment on, as a query without an end returns them, because the
// totals are computed backwards from the lifetime. The totals of a damaged series with more points than its lifetime
// begin with 0.
func (s *Series) AppendSamples(dst []Sample, now int64) []Sample {
	total := s.Lifetime - min(s.Stored(), s.Lifetime)
	last := int64(-1)
	for _, p := range s.Points {
		if p.Start > last {
			dst = append(dst, Sample{p.Start, total})
		}
		total += p.Sum
		last = max(min(p.End(), now), p.Start+1)
		dst = append(dst, Sample{last, total})
	}
	return dst
}

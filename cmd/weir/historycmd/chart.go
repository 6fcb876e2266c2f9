package historycmd

import (
	"slices"

	"github.com/weirproxy/weir/backend/history/query"
)

// chart is a curve on an axis of time. As buckets have different widths, what is drawn is the rate.
type chart struct {
	begin, end float64 // Unix seconds
	from       float64 // where the first column would begin if it were as long as the others
	column     float64 // seconds
	// By column: the mean in hits a second; the largest minute that began in it or in the bucket that it is a part of,
	// in the same unit; whether it is not over yet.
	rates, peaks []float64
	partial      []bool
	highest      float64 // of the rates
}

const (
	chartMargin = 12 // left of the axis, for a rate: "  9,999/min"
	minColumns  = 10 // are drawn however narrow the terminal is
)

// newChart spreads points over a width in characters. A column is a round number of the finest buckets, or a part of
// one, so that none shows half of one such bucket and half of the next.
func newChart(from, to int64, points []query.PointAnswer, width int) *chart {
	most := int64(max(width-chartMargin-1, minColumns))
	finest, phase := to-from, from
	for _, p := range points {
		if p.Width < finest {
			finest, phase = p.Width, p.Start
		}
	}
	c := &chart{begin: float64(from), end: float64(to)}
	columns := int64(0)
	if begin := phase - ceilDiv(phase-from, finest)*finest; ceilDiv(to-begin, finest) <= most {
		buckets := ceilDiv(to-begin, finest)
		c.from, c.column = float64(begin), float64(finest)/float64(most/buckets)
		columns = buckets * (most / buckets)
	} else {
		column := roundColumn(to-from, finest, most)
		// A short column at an end would show noise beside means of hours: the next one absorbs it.
		first := (from + column/2) / column * column
		c.from, c.column = float64(first), float64(column)
		columns = (to - first + column/2) / column
	}
	c.rates, c.peaks, c.partial = make([]float64, columns), make([]float64, columns), make([]bool, columns)
	for _, p := range points {
		c.spread(p)
	}
	c.highest = slices.Max(c.rates)
	return c
}

// roundColumn returns the shortest round time, in seconds, that divides a range into at most that many columns.
func roundColumn(length, finest, most int64) int64 {
	const minute = 60
	for _, round := range []int64{2 * minute, 3 * minute, 4 * minute, 5 * minute, 6 * minute, 10 * minute, 12 * minute,
		15 * minute, 20 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 4 * hour, 6 * hour, 8 * hour, 12 * hour,
		day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day, 10 * day, 14 * day, 21 * day, 28 * day, 56 * day} {
		if round%finest == 0 && ceilDiv(length, round)+1 <= most {
			return round
		}
	}
	return ceilDiv(length, (most-1)*finest) * finest
}

// ceilDiv returns a/b rounded up. Neither is negative.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// span returns where a column begins and ends, in Unix seconds. The first and the last go to the ends of the range.
func (c *chart) span(i int) (begin, end float64) {
	begin, end = c.from+float64(i)*c.column, c.from+float64(i+1)*c.column
	if i == 0 {
		begin = c.begin
	}
	if i == len(c.rates)-1 {
		end = c.end
	}
	return begin, end
}

// spread adds a bucket's hits to the columns that it overlaps, evenly over its time.
func (c *chart) spread(p query.PointAnswer) {
	begin, end := float64(p.Start), float64(p.Start+p.Width)
	for i := c.at(begin); i < len(c.rates); i++ {
		left, right := c.span(i)
		if left >= end {
			return
		}
		const rounding = 1e-3 // seconds: a bucket that ends where a column begins is not in it
		if overlap := min(end, right) - max(begin, left); overlap > rounding {
			c.rates[i] += float64(p.Sum) / (end - begin) * overlap / (right - left)
			c.peaks[i] = max(c.peaks[i], float64(p.Peak)/60)
			c.partial[i] = c.partial[i] || p.Partial
		}
	}
}

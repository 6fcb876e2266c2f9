package historycmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/curves"
)

// chart is a curve on an axis of time. As buckets have different widths, what is drawn is the rate.
type chart struct {
	begin, end float64   // Unix seconds
	from       float64   // where the first column would begin if it were as long as the others
	column     float64   // seconds
	rates      []float64 // hits a second, by column
	highest    float64
}

const (
	chartMargin = 12 // left of the axis, for a rate: "  9,999/min"
	minColumns  = 10 // are drawn however narrow the terminal is
)

// newChart spreads points over a width in characters. A column is a round number of the finest buckets, or a part of
// one, so that none shows half of one such bucket and half of the next.
func newChart(from, to int64, points []curves.PointAnswer, width int) *chart {
	most := int64(max(width-chartMargin-1, minColumns))
	finest, phase := to-from, from
	for _, p := range points {
		if p.Width < finest {
			finest, phase = p.Width, p.Start
		}
	}
	c := &chart{begin: float64(from), end: float64(to)}
	if begin := phase - ceilDiv(phase-from, finest)*finest; ceilDiv(to-begin, finest) <= most {
		buckets := ceilDiv(to-begin, finest)
		c.from, c.column = float64(begin), float64(finest)/float64(most/buckets)
		c.rates = make([]float64, buckets*(most/buckets))
	} else {
		column := roundColumn(to-from, finest, most)
		// A short column at an end would show noise beside means of hours: the next one absorbs it.
		first := (from + column/2) / column * column
		c.from, c.column = float64(first), float64(column)
		c.rates = make([]float64, (to-first+column/2)/column)
	}
	for _, p := range points {
		c.spread(p)
	}
	c.highest = slices.Max(c.rates)
	return c
}

// roundColumn returns the shortest round time, in seconds, that divides a range into at most that many columns.
func roundColumn(length, finest, most int64) int64 {
	const minute, hour, day = 60, 3600, 86400
	for _, round := range []int64{2 * minute, 3 * minute, 4 * minute, 5 * minute, 6 * minute, 10 * minute, 12 * minute,
		15 * minute, 20 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 4 * hour, 6 * hour, 8 * hour, 12 * hour,
		day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day, 10 * day, 14 * day, 21 * day, 28 * day, 56 * day} {
		if round%finest == 0 && ceilDiv(length, round)+1 <= most {
			return round
		}
	}
	return ceilDiv(length, (most-1)*finest) * finest
}

// ceilDiv returns a/b rounded up, for b above 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

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
func (c *chart) spread(p curves.PointAnswer) {
	begin, end := float64(p.Start), float64(p.Start+p.Width)
	last := len(c.rates) - 1
	for i := min(max(int((begin-c.from)/c.column), 0), last); i <= last; i++ {
		left, right := c.span(i)
		if left >= end {
			return
		}
		if overlap := min(end, right) - max(begin, left); overlap > 0 {
			c.rates[i] += float64(p.Sum) / (end - begin) * overlap / (right - left)
		}
	}
}

// eighths fill a character from below.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// draw appends the curve, with its axes, that many rows high.
func (c *chart) draw(b *strings.Builder, rows int, zone *time.Location, colour func(string) string) {
	for row := rows - 1; row >= 0; row-- {
		label := ""
		if row == rows-1 {
			label = describeRate(c.highest)
		}
		line := make([]rune, 0, len(c.rates))
		for _, rate := range c.rates {
			line = append(line, eighths[min(max(c.level(rate, rows)-8*row, 0), 8)])
		}
		text := strings.TrimRight(string(line), " ")
		if text != "" {
			text = colour(text)
		}
		fmt.Fprintf(b, "%*s ┤%s\n", chartMargin-2, label, text)
	}
	axis, labels := c.axis(zone)
	fmt.Fprintf(b, "%*s └%s\n%*s%s\n", chartMargin-2, "0", axis, chartMargin, "", labels)
}

// level returns how high a rate is drawn, in eighths of a row; only 0 is nothing.
func (c *chart) level(rate float64, rows int) int {
	if rate == 0 {
		return 0
	}
	return max(int(math.Round(rate/c.highest*float64(8*rows))), 1)
}

// describeRate writes hits a second by the minute, or by the hour or the day if they are few.
func describeRate(rate float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"min", 60}, {"h", 3600}, {"day", 86400}} {
		hits := rate * unit.seconds
		switch {
		case hits < 1 && unit.name != "day":
		case hits < 9.95 && math.Abs(hits-math.Round(hits)) >= 0.05:
			return fmt.Sprintf("%.1f/%s", hits, unit.name)
		case hits < 99_999.5:
			return fmt.Sprintf("%s/%s", terminal.Thousands(uint64(math.Round(hits))), unit.name)
		case hits < 999_500:
			return fmt.Sprintf("%.0fk/%s", hits/1e3, unit.name)
		default:
			return fmt.Sprintf("%.3gM/%s", hits/1e6, unit.name)
		}
	}
	return ""
}

// Steps between the times on an axis, in seconds.
var axisSteps = []int64{60, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600,
	86400, 2 * 86400, 7 * 86400, 14 * 86400, 28 * 86400, 91 * 86400, 364 * 86400}

// axis returns the axis of time and the line below it: round local times, with room between them.
func (c *chart) axis(zone *time.Location) (axis, labels string) {
	const room = 12 // columns, for a label of 10
	step := axisSteps[len(axisSteps)-1]
	for i := len(axisSteps) - 1; i >= 0 && float64(axisSteps[i]) >= room*c.column; i-- {
		step = axisSteps[i]
	}
	line, text := []rune(strings.Repeat("─", len(c.rates))), []rune{}
	for i := range c.rates {
		at := time.Unix(int64(c.from+float64(i)*c.column), 0).In(zone)
		_, offset := at.Zone()
		const monday = 4 * 86400 // weeks are counted from the first one after the beginning of Unix time
		local := at.Unix() + int64(offset) - monday
		ahead := (step - local%step) % step // until the next round time
		if float64(ahead) >= c.column {
			continue
		}
		label := []rune(axisLabel(at.Add(time.Duration(ahead)*time.Second), step))
		if len(text) > i-2 && len(text) > 0 || i+len(label) > len(c.rates)+chartMargin/2 {
			continue
		}
		line[i] = '┬'
		text = append(text, []rune(strings.Repeat(" ", i-len(text)))...)
		text = append(text, label...)
	}
	return string(line), string(text)
}

// axisLabel writes a time on an axis. The day is told by the date at its beginning.
func axisLabel(at time.Time, step int64) string {
	switch {
	case step > 28*86400:
		return at.Format("2006-01-02")
	case step >= 86400 || at.Hour() == 0 && at.Minute() == 0:
		return at.Format("Mon 02 Jan")
	}
	return at.Format("15:04")
}

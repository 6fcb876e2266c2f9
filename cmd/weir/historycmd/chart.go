package historycmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

const (
	hour   = 60 * 60
	day    = 24 * hour
	monday = (4 - 364) * day // one before the beginning of Unix time: weeks are counted from it
)

const (
	chartMargin = 12 // left of the axis, for a rate: "  9,999/min"
	minColumns  = 10 // are drawn however narrow the terminal is
)

// columnsOf returns how many columns a curve has on a terminal of a width.
func columnsOf(width int) int { return max(width-chartMargin-1, minColumns) }

// eighths fill a character from below.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

const (
	peakMark   = '·' // where the largest minute of a bucket would reach to
	beyondMark = '↑' // it would be beyond the chart
)

// chart is buckets on an axis of time, each a bar as high as its mean.
type chart struct {
	points []query.PointAnswer
	wide   int     // columns of a bar
	rows   int     // at least 2
	top    float64 // the rate at the upper end of the uppermost row, in hits a second
	beyond bool    // some peaks are above it: the uppermost row is for their marks alone
	zone   *time.Location
}

// newChart returns a chart that shows all peaks, unless the means beside them would be too flat to be seen.
func newChart(points []query.PointAnswer, width, rows int, zone *time.Location) *chart {
	const flat = 3 // times the highest mean
	points = fitting(points, columnsOf(width))
	highest, largest := 0., 0.
	for i := range points {
		mean, peak := ratesOf(&points[i])
		highest, largest = max(highest, mean), max(largest, peak)
	}
	c := &chart{points: points, wide: max(columnsOf(width)/len(points), 1), rows: rows, top: max(highest, largest), zone: zone}
	if c.beyond = largest > flat*highest; c.beyond {
		c.top = highest * float64(rows) / float64(rows-1)
	}
	return c
}

// fitting adds up neighbouring buckets, each time the same number, until at most most are left.
func fitting(points []query.PointAnswer, most int) (fit []query.PointAnswer) {
	for some := range slices.Chunk(points, (len(points)+most-1)/most) {
		sum := some[0]
		for _, p := range some[1:] {
			sum.Width, sum.Sum, sum.Peak = sum.Width+p.Width, sum.Sum+p.Sum, max(sum.Peak, p.Peak)
		}
		fit = append(fit, sum)
	}
	return fit
}

// ratesOf returns a bucket's mean and its largest minute, in hits a second.
func ratesOf(p *query.PointAnswer) (mean, peak float64) {
	return float64(p.Sum) / float64(p.Width), float64(p.Peak) / 60
}

// draw appends the curve with its axes, and what its marks mean.
func (c *chart) draw(b *strings.Builder, colour, faint func(string) string) {
	var marks string
	for row := c.rows - 1; row >= 0; row-- {
		var line strings.Builder
		for i := range c.points {
			line.WriteString(strings.Repeat(string(c.cell(&c.points[i], row)), c.wide))
		}
		label := ""
		switch {
		case c.beyond && row == c.rows-2:
			label = describeRate(c.top * float64(c.rows-1) / float64(c.rows))
		case !c.beyond && row == c.rows-1:
			label = describeRate(c.top)
		}
		marks += line.String()
		fmt.Fprintf(b, "%*s ┤%s\n", chartMargin-2, label, colour(strings.TrimRight(line.String(), " ")))
	}
	axis, labels := c.axis()
	fmt.Fprintf(b, "%*s └%s\n%*s%s\n", chartMargin-2, "0", axis, chartMargin, "", labels)
	legend := "█ mean"
	if strings.ContainsRune(marks, peakMark) {
		legend += "   · largest minute"
	}
	if strings.ContainsRune(marks, beyondMark) {
		legend += "   ↑ largest minute, beyond the chart"
	}
	if legend != "█ mean" {
		fmt.Fprintf(b, "  %s\n", faint(legend))
	}
}

// cell returns what stands in a row of a bucket's bar: a part of the bar, or above it the mark of its largest minute.
func (c *chart) cell(p *query.PointAnswer, row int) rune {
	level := func(rate float64) int { // in eighths of a row; only 0 is nothing
		return max(int(math.Round(rate/c.top*float64(8*c.rows))), int(math.Ceil(min(rate, 1))))
	}
	mean, peak := ratesOf(p)
	filled := min(max(level(mean)-8*row, 0), 8)
	marked := min((level(peak)-1)/8, c.rows-1) // the row of the largest minute
	switch {
	case filled > 0 || peak == 0 || marked != row:
		return eighths[filled]
	case level(peak) > 8*c.rows:
		return beyondMark
	}
	return peakMark
}

// Steps between the times on an axis, in seconds.
var axisSteps = []int64{60, 300, 600, 900, 1800, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day}

// axis returns the axis of time and the line below it: round local times, each where its bucket begins, with room
// between them. Neither is longer than the bars are.
func (c *chart) axis() (axis, labels string) {
	const room = 12 // columns, for a label of 10
	width := c.points[0].Width
	coarse, _ := slices.BinarySearch(axisSteps, max(width, room*width/int64(c.wide)))
	// Where no label of that step fits, as none stands near the beginning of few columns, a finer one may.
	for i := min(coarse, len(axisSteps)-1); i >= 0 && axisSteps[i] >= width; i-- {
		if axis, labels = c.labelled(axisSteps[i]); labels != "" {
			break
		}
	}
	return axis, labels
}

// labelled labels each bucket in which the clock of the zone comes to a multiple of a step, weeks counted from Monday. A
// time that the clock skips, or shows for the second time, has no label.
func (c *chart) labelled(step int64) (axis, labels string) {
	columns, last := len(c.points)*c.wide, c.points[len(c.points)-1]
	line, text := []rune(strings.Repeat("─", columns)), []rune{}
	years := twoYears(c.points[0].Start, last.Start+last.Width, c.zone)
	shows := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(c.zone).Zone()
		return at + int64(offset) - monday
	}
	for i, p := range c.points {
		column, round := i*c.wide, shows(p.Start+p.Width-1)/step*step
		label := axisLabel(round+monday, step, years)
		skipped := round%day > 0 && round < shows(p.Start)
		crowded := len(text) > 0 && len(text) > column-2 || column+len(label) > columns
		if skipped || crowded || round <= shows(p.Start-1) {
			continue
		}
		line[column] = '┬'
		text = append(text, []rune(strings.Repeat(" ", column-len(text))+label)...)
	}
	return string(line), string(text)
}

// axisLabel writes what a clock shows, in seconds since 1970. The day is told by the date at its beginning, with its year if
// there are several.
func axisLabel(shown, step int64, years bool) string {
	at := time.Unix(shown, 0).UTC()
	switch {
	case shown%day > 0:
		return at.Format("15:04")
	case years || step > 28*day:
		return at.Format(time.DateOnly)
	}
	return at.Format("Mon 02 Jan")
}

// twoYears reports whether a range has dates of two years, so that one without its year could be either.
func twoYears(from, to int64, zone *time.Location) bool {
	return time.Unix(from, 0).In(zone).Year() != time.Unix(to-1, 0).In(zone).Year()
}

// describeRate writes hits a second by the minute, or by the hour or the day if they are few.
func describeRate(rate float64) string {
	for _, unit := range []struct {
		name    string
		seconds float64
	}{{"min", 60}, {"h", 3600}, {"day", 86400}} {
		hits := rate * unit.seconds
		switch {
		case rate > 0 && hits < 1 && unit.name != "day":
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

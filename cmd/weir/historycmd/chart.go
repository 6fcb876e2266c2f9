package historycmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	historyapi "github.com/weirproxy/weir/server/history"
)

// monday is the beginning of a Monday before 1970, in Unix seconds. Weeks are counted from it.
const monday = (4 - 364) * history.Day

const (
	chartMargin = 12 // columns left of the axis, for a rate: "  9,999/min"
	minColumns  = 10 // drawn however narrow the terminal is
)

// columnsOf returns the number of columns of a curve on a terminal of a width.
func columnsOf(width int) int { return max(width-chartMargin-1, minColumns) }

// eighths are the characters that are filled from the bottom by so many eighths.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

// chart draws buckets on a time axis, each as a bar with the height of its mean rate.
type chart struct {
	points   []historyapi.PointAnswer
	barWidth int // columns
	rows     int
	zone     *time.Location
}

func newChart(points []historyapi.PointAnswer, width, rows int, zone *time.Location) *chart {
	points = merge(points, columnsOf(width))
	return &chart{points: points, barWidth: max(columnsOf(width)/len(points), 1), rows: rows, zone: zone}
}

// merge adds up groups of neighbouring buckets, all of the same size, so that at most limit remain.
func merge(points []historyapi.PointAnswer, limit int) (merged []historyapi.PointAnswer) {
	for group := range slices.Chunk(points, stepsOfBar(len(points), limit)) {
		sum := group[0]
		for _, p := range group[1:] {
			sum.Width, sum.Sum, sum.Peak, sum.Partial = sum.Width+p.Width, sum.Sum+p.Sum, max(sum.Peak, p.Peak), p.Partial
		}
		merged = append(merged, sum)
	}
	return merged
}

// stepsOfBar returns how many buckets [merge] adds up to one.
func stepsOfBar(buckets, limit int) int { return (buckets + limit - 1) / limit }

// draw appends the curve with its axes. The top row ends at the highest mean. Bars of partial buckets are pale.
func (c *chart) draw(b *strings.Builder, colour, pale func(string) string) {
	mean := func(p historyapi.PointAnswer) float64 { return float64(p.Sum) / float64(p.Width) } // hits a second
	top := 0.
	for _, p := range c.points {
		top = max(top, mean(p))
	}
	label := describeRate(top)
	for row := c.rows - 1; row >= 0; row-- {
		over, partial := "", ""
		for _, p := range c.points {
			level := int(math.Round(mean(p) / max(top, 1e-9) * float64(8*c.rows))) // in eighths of a row
			level = max(level, int(min(p.Sum, 1)))                                 // only 0 has no bar
			bar := strings.Repeat(string(eighths[min(max(level-8*row, 0), 8)]), c.barWidth)
			if p.Partial {
				partial += bar
			} else {
				over += bar
			}
		}
		if partial = strings.TrimRight(partial, " "); partial == "" {
			over = strings.TrimRight(over, " ")
		}
		fmt.Fprintf(b, "%*s ┤%s%s\n", chartMargin-2, label, colour(over), pale(partial))
		label = ""
	}
	axis, labels := c.axis()
	fmt.Fprintf(b, "%*s └%s\n%*s%s\n", chartMargin-2, "0", axis, chartMargin, "", labels)
}

// Steps between the times on an axis, in seconds.
var axisSteps = []int64{60, 300, 600, 900, 1800, history.Hour, 2 * history.Hour, 3 * history.Hour, 6 * history.Hour, 12 * history.Hour,
	history.Day, 2 * history.Day, 7 * history.Day, 14 * history.Day, 28 * history.Day, 91 * history.Day, 364 * history.Day}

// axis returns the time axis and the line of labels below it: round local times, each at its bucket, with room between
// them. Neither is longer than the bars.
func (c *chart) axis() (axis, labels string) {
	const room = 12 // columns, for a label of 10
	width := c.points[0].Width
	first, _ := slices.BinarySearch(axisSteps, max(width, room*width/int64(c.barWidth)))
	// A finer step may fit if no label of that step does, because it is not near the beginning of a narrow chart.
	for i := min(first, len(axisSteps)-1); i >= 0 && axisSteps[i] >= width; i-- {
		if axis, labels = c.axisOf(axisSteps[i]); labels != "" {
			break
		}
	}
	return axis, labels
}

// axisOf labels each bucket that contains a local time that is a multiple of a step; weeks begin on Monday. Local
// times that the clock skips or repeats have no label.
func (c *chart) axisOf(step int64) (axis, labels string) {
	columns, last := len(c.points)*c.barWidth, c.points[len(c.points)-1]
	line, text := []rune(strings.Repeat("─", columns)), []rune{}
	years := twoYears(c.points[0].Start, last.Start+last.Width, c.zone)
	clock := func(at int64) int64 { // in seconds since that Monday
		_, offset := time.Unix(at, 0).In(c.zone).Zone()
		return at + int64(offset) - monday
	}
	for i, p := range c.points {
		if p.Partial {
			copy(line[i*c.barWidth:], []rune(strings.Repeat("┄", c.barWidth)))
		}
		before, begin, end := clock(p.Start-1), clock(p.Start), clock(p.Start+p.Width-1)
		if p.Width >= history.Day { // it may be a UTC day, shown as the nearest local day
			midnight := func(at int64) int64 { return (at + history.Day/2) / history.Day * history.Day }
			begin, end = midnight(begin), midnight(end+1)-1
			before = begin - 1
		}
		column, round := i*c.barWidth, end/step*step
		label := axisLabel(round+monday, step, years)
		skipped := round%history.Day > 0 && round < begin
		crowded := len(text) > 0 && len(text) > column-2 || column+len(label) > columns
		if skipped || crowded || round <= before {
			continue
		}
		line[column] = '┬'
		text = append(text, []rune(strings.Repeat(" ", column-len(text))+label)...)
	}
	return string(line), string(text)
}

// axisLabel formats a local time, in seconds since 1970: the time or, at midnight, the date, with its year if there are
// two.
func axisLabel(clock, step int64, years bool) string {
	at := time.Unix(clock, 0).UTC()
	switch {
	case clock%history.Day > 0:
		return at.Format("15:04")
	case years || step > 28*history.Day:
		return at.Format(time.DateOnly)
	}
	return at.Format("Mon 02 Jan")
}

// twoYears reports whether a range begins and ends in different years, so that dates need theirs.
func twoYears(from, to int64, zone *time.Location) bool {
	return time.Unix(from, 0).In(zone).Year() != time.Unix(to-1, 0).In(zone).Year()
}

// describeRate formats hits a second per minute, or per hour if they are few.
func describeRate(rate float64) string {
	hits, unit := rate*60, "min"
	if rate > 0 && hits < 1 {
		hits, unit = rate*3600, "h"
	}
	switch {
	case hits >= 99_999.5:
		return fmt.Sprintf("%.2fM/%s", hits/1e6, unit)
	case hits >= 9.95:
		return fmt.Sprintf("%s/%s", terminal.Thousands(uint64(math.Round(hits))), unit)
	}
	return fmt.Sprintf("%.2g/%s", hits, unit)
}

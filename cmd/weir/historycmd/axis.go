package historycmd

import (
	"math"
	"strings"
	"time"
)

const (
	hour   = 60 * 60
	day    = 24 * hour
	monday = (4 - 364) * day // one before the beginning of Unix time: weeks are counted from it
)

// Steps between the times on an axis, in seconds.
var axisSteps = []int64{60, 300, 600, 900, 1800, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day}

// axis returns the axis of time and the line below it: round local times, each in the column that it falls into, with
// room between them. Neither is longer than the columns are.
func (c *chart) axis(zone *time.Location) (axis, labels string) {
	const room = 12 // columns, for a label of 10
	coarse := len(axisSteps) - 1
	for coarse > 0 && float64(axisSteps[coarse-1]) >= room*c.column {
		coarse--
	}
	// Where no label of that step fits, as none stands near the beginning of few columns, a finer one may.
	for i := coarse; i >= 0; i-- {
		if axis, labels = c.labelled(axisSteps[i], zone); labels != "" || float64(axisSteps[i]) < c.column {
			break
		}
	}
	return axis, labels
}

// labelled labels each column in which the clock of a zone comes to a multiple of a step, weeks counted from Monday. A time
// that the clock skips has no label; a day begins where its first minute is.
func (c *chart) labelled(step int64, zone *time.Location) (axis, labels string) {
	line, text := []rune(strings.Repeat("─", len(c.rates))), []rune{}
	years := twoYears(int64(c.begin), int64(c.end), zone)
	const rounding = 1e-3 // seconds: columns are parts of buckets
	shows := func(at float64) int64 {
		second := time.Unix(int64(math.Ceil(at-rounding)), 0).In(zone)
		_, offset := second.Zone()
		return second.Unix() + int64(offset) - monday
	}
	for i := range c.rates {
		begin, end := c.span(i)
		round := shows(end-1) / step * step
		label := axisLabel(round+monday, step, years)
		skipped := round%day > 0 && round < shows(begin)
		if skipped || round <= shows(begin-1) || len(text) > 0 && len(text) > i-2 || i+len(label) > len(c.rates) {
			continue
		}
		line[i] = '┬'
		text = append(text, []rune(strings.Repeat(" ", i-len(text))+label)...)
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

// at returns the column that holds a moment of the range.
func (c *chart) at(moment float64) int {
	const rounding = 1e-6 // columns: a moment where one begins is in it
	return min(max(int((moment-c.from)/c.column+rounding), 0), len(c.rates)-1)
}

// twoYears reports whether a range has dates of two years, so that one without its year could be either.
func twoYears(from, to int64, zone *time.Location) bool {
	return time.Unix(from, 0).In(zone).Year() != time.Unix(to-1, 0).In(zone).Year()
}

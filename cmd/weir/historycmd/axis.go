package historycmd

import (
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	hour = 60 * 60
	day  = 24 * hour
	// monday is the first one after the beginning of Unix time, in days since then: weeks are counted from it.
	monday = 4
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

func (c *chart) labelled(step int64, zone *time.Location) (axis, labels string) {
	line, text := []rune(strings.Repeat("─", len(c.rates))), []rune{}
	years := twoYears(int64(c.begin), int64(c.end), zone)
	for _, at := range roundTimes(int64(c.begin), int64(c.end), step, zone) {
		i := c.at(float64(at))
		label := []rune(axisLabel(at, step, years, zone))
		if len(text) > 0 && len(text) > i-2 || i+len(label) > len(c.rates) {
			continue
		}
		line[i] = '┬'
		text = append(text, []rune(strings.Repeat(" ", i-len(text)))...)
		text = append(text, label...)
	}
	return string(line), string(text)
}

// at returns the column that holds a moment of the range.
func (c *chart) at(moment float64) int {
	const rounding = 1e-6 // columns: a moment where one begins is in it
	return min(max(int((moment-c.from)/c.column+rounding), 0), len(c.rates)-1)
}

// roundTimes returns the moments from one until before another at which the clock of a zone shows a multiple of a step.
// A time that comes twice when clocks go back is there twice; a day begins where its first minute is.
func roundTimes(from, to, step int64, zone *time.Location) []int64 {
	const most = 15 * hour // that a zone is away from UTC
	var times []int64
	if step >= day {
		each := step / day
		for date := (from/day-1-monday)/each*each + monday; date*day < to+most; date += each {
			times = append(times, dayStart(date, zone))
		}
	} else {
		for local := (from - most) / step * step; local < to+most; local += step {
			if local%day == 0 {
				times = append(times, dayStart(local/day, zone))
			}
			for _, near := range [...]int64{local - day, local + day} { // its clock was set differently there, if ever
				if at := local - offset(near, zone); offset(at, zone) == local-at {
					times = append(times, at)
				}
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	return slices.DeleteFunc(times, func(at int64) bool { return at < from || at >= to })
}

// offset returns how many seconds a zone is ahead of UTC at a moment.
func offset(at int64, zone *time.Location) int64 {
	_, seconds := time.Unix(at, 0).In(zone).Zone()
	return int64(seconds)
}

// dayStart returns the first moment of a date, in days since 1970.
func dayStart(date int64, zone *time.Location) int64 {
	at, _ := history.ParseLocal(time.Unix(date*day, 0).UTC().Format(time.DateOnly), zone)
	return at
}

// axisLabel writes a time on an axis. The day is told by the date at its beginning, with its year if there are several.
func axisLabel(moment, step int64, years bool, zone *time.Location) string {
	at := time.Unix(moment, 0).In(zone)
	switch starts := dayStart((moment+offset(moment, zone))/day, zone) == moment; {
	case starts && (years || step > 28*day):
		return at.Format(time.DateOnly)
	case starts:
		return at.Format("Mon 02 Jan")
	}
	return at.Format("15:04")
}

// twoYears reports whether a range has dates of two years, so that one without its year could be either.
func twoYears(from, to int64, zone *time.Location) bool {
	return time.Unix(from, 0).In(zone).Year() != time.Unix(to-1, 0).In(zone).Year()
}

package historycmd

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// eighths fill a character from below.
var eighths = []rune(" ▁▂▃▄▅▆▇█")

const rounding = 1e-9 // of a rate, relative to it

const (
	peakMark   = '·' // where the largest minute of a column would reach to
	beyondMark = '↑' // it would be beyond the chart
)

// scale is what a chart's height stands for.
type scale struct {
	rows   int
	top    float64 // hits a second, of the upper end of the uppermost row
	beyond bool    // some peaks are above it: the uppermost row is for their marks alone
}

// scale returns a scale that shows all peaks, unless the means beside them would be too flat to be seen.
func (c *chart) scale(rows int) scale {
	const flat = 3 // times the highest mean
	switch highest := slices.Max(c.peaks); {
	case highest <= c.highest:
		return scale{rows, c.highest, false}
	case highest <= flat*c.highest:
		return scale{rows, highest, false}
	}
	return scale{rows, c.highest * float64(rows) / float64(rows-1), true}
}

// level returns how high a rate is drawn, in eighths of a row; only 0 is nothing.
func (s *scale) level(rate float64) int {
	if rate == 0 {
		return 0
	}
	return max(int(math.Round(rate/s.top*float64(8*s.rows))), 1)
}

// label returns the rate that is written beside a row: the highest that is drawn.
func (s *scale) label(row int, c *chart) string {
	switch {
	case s.beyond && row == s.rows-2:
		return describeRate(c.highest)
	case !s.beyond && row == s.rows-1:
		return describeRate(s.top)
	}
	return ""
}

// peak returns the row of a column's peak and its mark, or 0 for none: its mean is as high, or reaches into the same row.
func (s *scale) peak(c *chart, i int) (row int, mark rune) {
	if c.peaks[i] <= c.rates[i]*(1+rounding) {
		return 0, 0
	}
	row, mark = int(math.Ceil(c.peaks[i]/s.top*float64(s.rows)))-1, peakMark
	if c.peaks[i] > s.top*(1+rounding) {
		mark = beyondMark
	}
	if row = min(max(row, 0), s.rows-1); s.level(c.rates[i]) > 8*row {
		return row, 0
	}
	return row, mark
}

// marks are those that a chart was drawn with.
type marks struct{ peaks, beyond bool }

// draw appends the curve, with its axes, that many rows high, at least 2. What is not over is drawn faintly.
func (c *chart) draw(b *strings.Builder, rows int, zone *time.Location, colour, faint func(string) string) (drawn marks) {
	s := c.scale(rows)
	for row := rows - 1; row >= 0; row-- {
		var line brush
		for i, rate := range c.rates {
			style := colour
			if c.partial[i] {
				style = faint
			}
			if block := eighths[min(max(s.level(rate)-8*row, 0), 8)]; block != ' ' {
				line.put(i, block, style, c.partial[i])
			} else if at, mark := s.peak(c, i); mark != 0 && at == row {
				line.put(i, mark, faint, true)
				drawn.peaks, drawn.beyond = drawn.peaks || mark == peakMark, drawn.beyond || mark == beyondMark
			}
		}
		fmt.Fprintf(b, "%*s ┤%s\n", chartMargin-2, s.label(row, c), line.String())
	}
	axis, labels := c.axis(zone)
	fmt.Fprintf(b, "%*s └%s\n%*s%s\n", chartMargin-2, "0", axis, chartMargin, "", labels)
	return drawn
}

// brush writes a line of characters of two styles, without spaces at its end.
type brush struct {
	out   strings.Builder
	run   []rune // what has been put and not yet written, all of one style
	style func(string) string
	faint bool
	width int
}

func (l *brush) put(column int, r rune, style func(string) string, faint bool) {
	if gap := column - l.width; gap > 0 || faint != l.faint {
		l.flush()
		l.out.WriteString(strings.Repeat(" ", gap))
	}
	l.run, l.style, l.faint, l.width = append(l.run, r), style, faint, column+1
}

func (l *brush) flush() {
	if len(l.run) > 0 {
		l.out.WriteString(l.style(string(l.run)))
		l.run = l.run[:0]
	}
}

// String returns the line.
func (l *brush) String() string {
	l.flush()
	return l.out.String()
}

// legend returns what the marks of a chart mean, "" if it has none.
func (m marks) legend() string {
	switch {
	case m.peaks && m.beyond:
		return "█ mean   · largest minute   ↑ largest minute, beyond the chart"
	case m.beyond:
		return "█ mean   ↑ largest minute, beyond the chart"
	case m.peaks:
		return "█ mean   · largest minute"
	}
	return ""
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

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

// draw appends the curve, with its axes, that many rows high, at least 2, and returns what its marks mean, "" if it has
// none. What is not over is drawn faintly.
func (c *chart) draw(b *strings.Builder, rows int, zone *time.Location, colour, faint func(string) string) (legend string) {
	s := c.scale(rows)
	drawn := make(map[rune]bool)
	for row := rows - 1; row >= 0; row-- {
		line, dim := make([]rune, len(c.rates)), make([]bool, len(c.rates))
		for i, rate := range c.rates {
			line[i], dim[i] = eighths[min(max(s.level(rate)-8*row, 0), 8)], c.partial[i]
			if at, mark := s.peak(c, i); line[i] == ' ' && mark != 0 && at == row {
				line[i], dim[i], drawn[mark] = mark, true, true
			}
		}
		fmt.Fprintf(b, "%*s ┤%s\n", chartMargin-2, s.label(row, c), painted(line, dim, colour, faint))
	}
	axis, labels := c.axis(zone)
	fmt.Fprintf(b, "%*s └%s\n%*s%s\n", chartMargin-2, "0", axis, chartMargin, "", labels)
	if drawn[peakMark] {
		legend += "   · largest minute"
	}
	if drawn[beyondMark] {
		legend += "   ↑ largest minute, beyond the chart"
	}
	if legend != "" {
		legend = "█ mean" + legend
	}
	return legend
}

// painted colours a line, faintly where it is dim, and leaves out the spaces at its end.
func painted(line []rune, dim []bool, colour, faint func(string) string) string {
	var out strings.Builder
	for from, to := 0, 0; from < len(line); from = to {
		for to < len(line) && dim[to] == dim[from] && (line[to] == ' ') == (line[from] == ' ') {
			to++
		}
		switch part := string(line[from:to]); {
		case line[from] == ' ':
			out.WriteString(part)
		case dim[from]:
			out.WriteString(faint(part))
		default:
			out.WriteString(colour(part))
		}
	}
	return strings.TrimRight(out.String(), " ")
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

package historycmd

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

// pictureOf draws points on 36 columns, 4 rows high, in plain text.
func pictureOf(from, to int64, points []query.PointAnswer) (picture, legend string) {
	var b strings.Builder
	legend = newChart(from, to, points, 36).draw(&b, 4, time.UTC, plain, plain)
	return "\n" + b.String(), legend
}

// hourly is an hour a point, with means by the minute and peaks as given.
func hourly(meansAndPeaks ...uint64) (to int64, points []query.PointAnswer) {
	for i := 0; i < len(meansAndPeaks); i += 2 {
		points = append(points, query.PointAnswer{Start: to, Width: 3600, Sum: 60 * meansAndPeaks[i], Peak: meansAndPeaks[i+1], Tier: "1h"})
		to += 3600
	}
	return to, points
}

func TestTheLargestMinuteIsMarkedAboveTheMean(t *testing.T) {
	to, points := hourly(10, 40, 20, 20, 0, 0, 40, 80, 40, 70, 30, 39)
	picture, legend := pictureOf(0, to, points)
	const want = `
    80/min ┤         ······
           ┤
           ┤···      ██████▄▄▄
           ┤▄▄▄███   █████████
         0 └┬─────────────────
            Thu 01 Jan
`
	if picture != want || legend != "█ mean   · largest minute" {
		t.Errorf("got%slegend %q, want%sA spike must be seen that its mean hides.", picture, legend, want)
	}
}

func TestPeaksThatWouldFlattenTheMeansAreToldInstead(t *testing.T) {
	to, points := hourly(10, 1000, 20, 21, 30, 40)
	picture, legend := pictureOf(0, to, points)
	const want = `
           ┤↑↑↑↑↑↑↑       ·······
    30/min ┤       ·······███████
           ┤       ██████████████
           ┤█████████████████████
         0 └┬─────────────┬──────
            Thu 01 Jan    02:00
`
	if picture != want || legend != "█ mean   · largest minute   ↑ largest minute, beyond the chart" {
		t.Errorf("got%slegend %q, want%s", picture, legend, want)
	}
}

// However peaks and means lie, every peak that is above its mean by a row is marked, and no line is longer than the axis.
func TestEveryPeakIsMarkedOrReached(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var pairs []uint64
		for range 1 + r.IntN(30) {
			mean := r.Uint64N(1 << r.IntN(20))
			pairs = append(pairs, mean, mean+r.Uint64N(1<<r.IntN(20)))
		}
		if pairs[0] == 0 {
			pairs[0], pairs[1] = 1, 1
		}
		to, points := hourly(pairs...)
		c := newChart(0, to, points, 80)
		rows := 2 + r.IntN(8)
		var b strings.Builder
		c.draw(&b, rows, time.UTC, plain, plain)
		lines := strings.Split(b.String(), "\n")
		for i := range c.rates {
			marks, reached := 0, 0
			for row := range rows {
				line := []rune(lines[rows-1-row])[chartMargin:]
				if len(line) > len(c.rates) {
					t.Fatalf("a row of %d columns in a chart of %d:\n%s", len(line), len(c.rates), b.String())
				}
				switch {
				case i >= len(line) || line[i] == ' ':
				case line[i] == peakMark || line[i] == beyondMark:
					marks++
				default:
					reached = row + 1
				}
			}
			s := c.scale(rows)
			if higher := c.peaks[i]/s.top*float64(rows) > float64(reached)+0.07; marks > 1 || higher && marks == 0 {
				t.Fatalf("column %d, of the mean %v and the peak %v, has %d marks:\n%s", i, c.rates[i], c.peaks[i], marks, b.String())
			}
		}
	}
}

func TestWhatIsNotOverIsFaintAndTold(t *testing.T) {
	to, points := hourly(10, 10, 10, 10, 5, 10)
	points[2].Partial = true
	a := query.HistoryAnswer{About: query.About{To: to}, Series: []query.SeriesAnswer{{SeriesName: query.SeriesName{Domain: "shop", Path: "user", Outcome: "within"},
		Total: 1500, Lifetime: 1500, Points: points}}}
	got := (&showView{answer: &a, zone: time.UTC, width: 20, paint: terminal.Paint{On: true}}).String()
	const green, dim, end = "\x1b[32m", "\x1b[2m", "\x1b[0m"
	want := `    10/min ┤` + green + "██████" + end + dim + "···" + end + "\n"
	if !strings.Contains(got, want) || !strings.Contains(got, green+"██████"+end+dim+"███"+end) || !strings.Contains(got, "the last bucket (1h) is not over") {
		t.Errorf("got\n%q\nwant %q in it: what is still filling must not look like a drop", got, want)
	}
	if got := (&showView{answer: &a, zone: time.UTC, width: 20}).String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "the last bucket (1h) is not over") {
		t.Errorf("without colours got\n%s", got)
	}
}

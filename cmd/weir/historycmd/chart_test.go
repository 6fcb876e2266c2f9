package historycmd

import (
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	historyapi "github.com/weirproxy/weir/server/history"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// hourly is an hour a point, with means by the minute as given.
func hourly(means ...uint64) (points []historyapi.PointAnswer) {
	for i, mean := range means {
		points = append(points, historyapi.PointAnswer{Start: int64(i) * history.Hour, Width: history.Hour, Sum: 60 * mean, Tier: "1h"})
	}
	return points
}

func plain(s string) string { return s }

func TestBarHeightIsTheBucketsMean(t *testing.T) {
	const want = `
    40/min ┤         ███
           ┤         ███▄▄▄
           ┤   ███   ██████
           ┤▁▁▁███   ██████
         0 └┬─────────────────
            Thu 01 Jan
`
	var b strings.Builder
	newChart(hourly(1, 20, 0, 40, 25, 0), 36, 4, time.UTC).draw(&b, plain, plain)
	if got := "\n" + b.String(); got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

// A new history has hits only today. The rate is that of the ten hours that have passed.
func TestUnfinishedBucketIsDrawnPale(t *testing.T) {
	const today = 20000 * history.Day
	points := []historyapi.PointAnswer{{Start: today - history.Day, Width: history.Day}, {Start: today, Width: history.Day, Sum: 3000, Peak: 9, Tier: "1m", Partial: true},
		{Start: today + history.Day, Width: history.Day, Partial: true}}
	a := historyapi.HistoryAnswer{Metadata: historyapi.Metadata{From: today - history.Day, To: today + 2*history.Day}, Now: today + 10*history.Hour,
		Series: []historyapi.SeriesAnswer{{SeriesName: historyapi.SeriesName{Domain: "shop", Path: "user", Outcome: "within"}, Total: 3000, Points: points}}}
	for _, c := range []struct {
		paint terminal.Paint
		bar   string
	}{{terminal.Paint{}, "     5/min ┤                      ██████████████████████\n"},
		{terminal.Paint{On: true}, "\x1b[2m\x1b[32m██████████████████████\x1b[0m\x1b[0m\n"}} {
		got := (&showView{answer: &a, zone: time.UTC, width: 80, paint: c.paint}).String()
		for _, want := range []string{", ┄ still counting\n", c.bar, " 0 └┬─────────────────────┬┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┬┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("a day of which ten hours have passed, with 3,000 hits, is shown as\n%s\nwant %q in it", got, want)
			}
		}
	}
}

func TestExcessBucketsAreAddedUp(t *testing.T) {
	var many []uint64
	for range 100 {
		many = append(many, 30)
	}
	for width := range 200 {
		c := newChart(hourly(many...), width, 4, time.UTC)
		if len(c.points)*c.barWidth > columnsOf(width) {
			t.Fatalf("%d columns on a terminal of %d: lines would wrap", len(c.points)*c.barWidth, width)
		}
		hits := uint64(0)
		for i := range c.points {
			hits += c.points[i].Sum
		}
		if hits != 100*60*30 {
			t.Fatalf("on a terminal of %d the curve has %d hits, want %d", width, hits, 100*60*30)
		}
	}
}

func TestAxisTimesAreRoundAndLocal(t *testing.T) {
	berlin, newYork, kolkata := zoneOf(t, "Europe/Berlin"), zoneOf(t, "America/New_York"), zoneOf(t, "Asia/Kolkata")
	for _, c := range []struct {
		promise  string
		from, to time.Time
		width    int64
		want     string // the labels, without the spaces between them
	}{
		{"an hour comes twice", time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), time.Date(2026, 10, 25, 4, 0, 0, 0, berlin), 300,
			"Sun 25 Oct 01:00 02:00 03:00"},
		{"an hour is left out", time.Date(2026, 3, 8, 0, 0, 0, 0, newYork), time.Date(2026, 3, 8, 4, 0, 0, 0, newYork), 300,
			"Sun 08 Mar 01:00 03:00"},
		{"days of 25 hours do not move the days after them", time.Date(2026, 10, 23, 0, 0, 0, 0, berlin), time.Date(2026, 10, 28, 0, 0, 0, 0, berlin), 2 * history.Hour,
			"Fri 23 Oct Sat 24 Oct Sun 25 Oct Mon 26 Oct Tue 27 Oct"},
		{"hours of a zone at half past", time.Date(2026, 11, 20, 20, 0, 0, 0, kolkata), time.Date(2026, 11, 21, 4, 0, 0, 0, kolkata), 600,
			"20:00 22:00 Sat 21 Nov 02:00"},
		{"weeks begin on Monday", time.Date(2026, 10, 1, 0, 0, 0, 0, berlin), time.Date(2026, 10, 31, 0, 0, 0, 0, berlin), 12 * history.Hour,
			"Mon 05 Oct Mon 12 Oct Mon 19 Oct Mon 26 Oct"},
		{"years are told where there are two", time.Date(2025, 12, 20, 0, 0, 0, 0, berlin), time.Date(2026, 1, 19, 0, 0, 0, 0, berlin), 12 * history.Hour,
			"2025-12-22 2025-12-29 2026-01-05 2026-01-12"},
		{"a UTC day is the local day nearest to it", time.Unix(1790985600, 0).In(berlin), time.Unix(1791072000, 0).In(berlin), history.Day, "Sat 03 Oct"},
		{"west of Greenwich too", time.Unix(1790985600, 0).In(newYork), time.Unix(1791072000, 0).In(newYork), history.Day, "Sat 03 Oct"},
		{"weeks of UTC days begin on Monday", time.Unix(1790553600, 0).In(berlin), time.Unix(1791763200, 0).In(berlin), 7 * history.Day, "Mon 28 Sep Mon 05 Oct"},
	} {
		var points []historyapi.PointAnswer
		for at := c.from.Unix(); at < c.to.Unix(); at += c.width {
			points = append(points, historyapi.PointAnswer{Start: at, Width: c.width, Sum: 1})
		}
		axis, labels := newChart(points, 80, 4, c.from.Location()).axis()
		if got := strings.Join(strings.Fields(labels), " "); got != c.want || len([]rune(labels)) > len([]rune(axis)) {
			t.Errorf("%s: got %q, want %q\n%s\n%s", c.promise, got, c.want, axis, labels)
		}
	}
}

func TestRatesUseReadableUnits(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		want      string
	}{
		{0, "0/min"}, {2, "120/min"}, {0.1, "6/min"}, {0.07, "4.2/min"}, {9.99 / 60, "10/min"}, {1234567. / 60, "1.23M/min"},
		{99999. / 60, "99,999/min"}, {99999.6 / 60, "0.10M/min"}, {1. / 120, "30/h"}, {1. / 7200, "0.5/h"},
	} {
		if got := describeRate(c.perSecond); got != c.want {
			t.Errorf("%v a second is shown as %q, want %q", c.perSecond, got, c.want)
		}
	}
}

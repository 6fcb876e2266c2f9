package historycmd

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// axisOf draws the axis of a range that is stored by one width.
func axisOf(from, to, stored int64, width int, zone *time.Location) (c *chart, axis, labels string) {
	c = newChart(from, to, []query.PointAnswer{{Start: from / stored * stored, Width: stored, Sum: 1}}, width)
	axis, labels = c.axis(zone)
	return c, axis, labels
}

func TestTimesOnTheAxisAreRoundAndLocal(t *testing.T) {
	berlin, newYork, lordHowe, kolkata := zoneOf(t, "Europe/Berlin"), zoneOf(t, "America/New_York"), zoneOf(t, "Australia/Lord_Howe"), zoneOf(t, "Asia/Kolkata")
	for _, c := range []struct {
		promise  string
		from, to time.Time
		stored   int64
		want     string // the axis and its labels, without the spaces between them
	}{
		{"over the night when clocks go back", time.Date(2026, 10, 24, 20, 0, 0, 0, berlin), time.Date(2026, 10, 25, 8, 0, 0, 0, berlin), 3600,
			"21:00 Sun 25 Oct 03:00 06:00"},
		{"an hour comes twice", time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), time.Date(2026, 10, 25, 4, 0, 0, 0, berlin), 60,
			"Sun 25 Oct 01:00 02:00 03:00"},
		{"days of 25 hours do not move the days after them", time.Date(2026, 10, 23, 0, 0, 0, 0, berlin), time.Date(2026, 10, 28, 0, 0, 0, 0, berlin), 3600,
			"Fri 23 Oct Sat 24 Oct Sun 25 Oct Mon 26 Oct Tue 27 Oct"},
		{"over the night when clocks go forward", time.Date(2026, 3, 7, 20, 0, 0, 0, newYork), time.Date(2026, 3, 8, 8, 0, 0, 0, newYork), 3600,
			"20:00 22:00 Sun 08 Mar 04:00 06:00"},
		{"an hour is left out", time.Date(2026, 3, 8, 0, 0, 0, 0, newYork), time.Date(2026, 3, 8, 4, 0, 0, 0, newYork), 60,
			"Sun 08 Mar 01:00 03:00"},
		{"half an hour comes twice", time.Date(2026, 4, 5, 0, 0, 0, 0, lordHowe), time.Date(2026, 4, 5, 3, 0, 0, 0, lordHowe), 60,
			"Sun 05 Apr 01:00 02:00"},
		{"hours of a zone at half past", time.Date(2026, 11, 20, 20, 0, 0, 0, kolkata), time.Date(2026, 11, 21, 4, 0, 0, 0, kolkata), 300,
			"20:00 22:00 Sat 21 Nov 02:00"},
		{"weeks begin on Monday", time.Date(2026, 10, 1, 0, 0, 0, 0, berlin), time.Date(2026, 10, 31, 0, 0, 0, 0, berlin), 3600,
			"Mon 05 Oct Mon 12 Oct Mon 19 Oct Mon 26 Oct"},
		{"years are told where there are two", time.Date(2025, 12, 20, 0, 0, 0, 0, berlin), time.Date(2026, 1, 19, 0, 0, 0, 0, berlin), 3600,
			"2025-12-22 2025-12-29 2026-01-05 2026-01-12"},
	} {
		chart, axis, labels := axisOf(c.from.Unix(), c.to.Unix(), c.stored, 80, c.from.Location())
		if got := strings.Join(strings.Fields(labels), " "); got != c.want {
			t.Errorf("%s: got %q, want %q\n%s\n%s", c.promise, got, c.want, axis, labels)
		}
		checkAxis(t, chart, axis, labels, c.from.Location())
	}
}

func plain(s string) string { return s }

// checkAxis complains of an axis that is not as long as its columns, and of labels that are not at their time.
func checkAxis(t *testing.T, c *chart, axis, labels string, zone *time.Location) {
	t.Helper()
	ticks, text := []rune(axis), []rune(labels)
	if len(ticks) != len(c.rates) || len(text) > len(c.rates) {
		t.Errorf("%d columns have an axis of %d and labels of %d: it must end with the bars\n%s\n%s", len(c.rates), len(ticks), len(text), axis, labels)
		return
	}
	if strings.Count(axis, "┬") == 0 && len(ticks) > 12 {
		t.Errorf("no time at all on an axis of %d columns", len(ticks))
	}
	for i, tick := range ticks {
		if tick != '┬' {
			continue
		}
		rest := string(text[min(i, len(text)):])
		label, _, _ := strings.Cut(rest, "  ")
		if label = strings.TrimRight(label, " "); !shows(c, i, label, zone) {
			begin, end := c.span(i)
			t.Errorf("column %d, from %s to %s, is labelled %q\n%s\n%s", i, time.Unix(int64(begin), 0).In(zone), time.Unix(int64(end), 0).In(zone),
				label, axis, labels)
		}
	}
	for i, r := range text {
		if r != ' ' && (i == 0 || text[i-1] == ' ' && (i < 2 || text[i-2] == ' ')) && ticks[i] != '┬' {
			t.Errorf("the label in column %d has no tick above it\n%s\n%s", i, axis, labels)
		}
	}
}

// shows reports whether the span of a column holds a moment that a clock shows as that label: a date at its beginning.
func shows(c *chart, i int, label string, zone *time.Location) bool {
	begin, end := c.span(i)
	const rounding = 1e-3 // seconds
	step := 60.
	if end-begin > 6*hour { // labels are at quarters of an hour then, and clocks differ by quarters differ by quarters of an hour
		step = 900
	}
	first := int64(math.Ceil((begin-rounding)/step) * step)
	for at := time.Unix(first, 0).In(zone); float64(at.Unix()) < end-rounding; at = at.Add(time.Duration(step) * time.Second) {
		starts := at.Add(-time.Minute).Day() != at.Day()
		if !starts && at.Format("15:04") == label || starts && (at.Format("Mon 02 Jan") == label || at.Format(time.DateOnly) == label) {
			return true
		}
	}
	return false
}

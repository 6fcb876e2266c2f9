package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTableAlignsFiguresByCharacters(t *testing.T) {
	got := table([][]string{
		{"what", "µs", "words"},
		{"a", "1.5", "met"},
		{"longer", "–", ""},
	})
	want := "" +
		"what     µs  words\n" +
		"a       1.5  met\n" +
		"longer    –\n"
	if got != want {
		t.Errorf("the table is\n%swant\n%s", got, want)
	}
	if got := table(nil); got != "" {
		t.Errorf("a table of no rows is %q, want nothing", got)
	}
}

func TestBudgetIsJudgedInWords(t *testing.T) {
	for _, c := range []struct {
		budget, floors float64
		want           string
	}{
		{0, 0.7, ""},
		{0.85, 0, "0.85: unknown"},
		{0.85, 0.85, "0.85: met"},
		{0.85, 0.7, "0.85: met"},
		{0.85, 0.97, "0.85: missed by 0.12"},
		{0.85, 0.8501, "0.85: missed by 0.01"},
	} {
		if got := budgetVerdict(c.budget, c.floors); got != c.want {
			t.Errorf("budget %v, cost %v: %q, want %q", c.budget, c.floors, got, c.want)
		}
	}
}

// twoRounds returns a scenario that cost 0.8 and 1.2 floors.
func twoRounds() outcome {
	return outcome{
		scenario: scenario{Name: "sliding-hour", Title: "sliding window, hour", Budget: 0.85},
		Rounds: []round{
			{
				Unpaced:  sample{RequestsPerSecond: 30_000, CPUMicros: 16, P50Millis: 0.5, P99Millis: 2},
				HalfLoad: &sample{P50Millis: 0.2, P99Millis: 1, LateP50Millis: 0.05, LateP99Millis: 0.5},
				Floors:   0.8, ResidentBytes: 30 << 20,
			},
			{
				Unpaced:  sample{RequestsPerSecond: 20_000, CPUMicros: 24, P50Millis: 0.7, P99Millis: 4},
				HalfLoad: &sample{P50Millis: 0.4, P99Millis: 3, LateP50Millis: 0.07, LateP99Millis: 0.7},
				Floors:   1.2, ResidentBytes: 40 << 20,
			},
		},
	}
}

func TestReportShowsMediansSpreadAndMissedBudget(t *testing.T) {
	r := newReport(options{Connections: 2, InFlight: 16, Share: 0.5, Keys: 10_000}, "weir", []outcome{twoRounds()})
	var out strings.Builder
	if err := r.write(&out); err != nil {
		t.Fatal(err)
	}
	row := "sliding window, hour     20.0    1.00  0.80..1.20         –        –         –       25000    0.60  3.00" +
		"            0.30  2.00      40  0.85: missed by 0.15\n"
	for _, want := range []string{
		row, "weir against the floor · 2 connections, 16 in flight on each · 10000 keys",
		"Medians of 2 interleaved rounds", "at most 0.06 ms (p50) and 0.60 ms (p99)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
}

func TestReportTellsAtWhichShareOfTheLoadItMeasured(t *testing.T) {
	for share, want := range map[float64]string{
		0.5:  "The half load is paced, at 0.5 of the rate before it;",
		0.25: "The 0.25 load is paced, at 0.25 of the rate before it;",
	} {
		var out strings.Builder
		if err := newReport(options{Share: share}, "weir", []outcome{twoRounds()}).write(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), pacedName(share)+": p50") {
			t.Errorf("the report lacks %q, or a column of that name:\n%s", want, out.String())
		}
	}
}

func TestReportJudgesTheCostInRedisToo(t *testing.T) {
	o := twoRounds()
	o.Budget, o.RedisBudget = 1.3, 6
	for i, incrBys := range []float64{5, 8} {
		o.Rounds[i].IncrByMicros, o.Rounds[i].IncrBys, o.Rounds[i].Unpaced.RedisMicros = 2, incrBys, 2*incrBys
	}
	got := strings.Join(summarize(o).row(), "|")
	want := "sliding window, hour|20.0|1.00|0.80..1.20|13.0|6.50|5.00..8.00|25000|0.60|3.00|0.30|2.00|40|" +
		"1.30: met; Redis 6.00: missed by 0.50"
	if got != want {
		t.Errorf("the row is %q, want %q", got, want)
	}
}

func TestReportShowsADashForWhatIsUnknown(t *testing.T) {
	o := twoRounds()
	for i := range o.Rounds {
		o.Rounds[i].Unpaced.CPUMicros, o.Rounds[i].Floors = 0, 0
		o.Rounds[i].HalfLoad, o.Rounds[i].ResidentBytes = nil, 0
	}
	got := summarize(o).row()
	want := []string{
		"sliding window, hour", "–", "–", "–", "–", "–", "–", "25000", "0.60", "3.00", "–", "–", "–", "0.85: unknown",
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the row is %q, want %q", got, want)
	}
}

func TestReportWarnsWhenTheClientWasStarved(t *testing.T) {
	for _, c := range []struct {
		lateMillis float64
		want       bool
	}{{0.2, false}, {40, true}} {
		o := twoRounds()
		for i := range o.Rounds {
			o.Rounds[i].HalfLoad.LateP50Millis = c.lateMillis
		}
		var out strings.Builder
		if err := newReport(options{}, "weir", []outcome{o}).write(&out); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "Measure again"); got != c.want {
			t.Errorf("the client was %v ms late, and the warning is there: %t, want %t", c.lateMillis, got, c.want)
		}
	}
}

func TestSavedReportHoldsEveryRound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := newReport(options{}, "weir", []outcome{twoRounds()}).save(path); err != nil {
		t.Fatal(err)
	}
	encoded, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Scenarios []struct {
			Name   string
			Floors spread
			Budget string
			Rounds []struct{ Floors float64 }
		}
	}
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Scenarios) != 1 || len(got.Scenarios[0].Rounds) != 2 || got.Scenarios[0].Rounds[1].Floors != 1.2 ||
		got.Scenarios[0].Name != "sliding-hour" || got.Scenarios[0].Floors != (spread{1, 0.8, 1.2}) {
		t.Errorf("the file says %+v, want the scenario, its spread and both rounds:\n%s", got, encoded)
	}
}

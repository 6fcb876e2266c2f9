package script

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// maxCheck is the budget of one check inside Redis.
const maxCheck = 100 * time.Microsecond

// cost is what a layout costs Redis.
type cost struct {
	layout
	live, spread, denied float64       // CPU of a check, in INCRBYs
	worst, wakes         time.Duration // of one check: among those spread over the window, and after 23/24 of a full one
	bytes, million       float64       // MEMORY USAGE of a user's keys; of all memory that copies took, a million times
}

// writeCosts prints costs as a table in Markdown. Numbers that do not apply are dashes.
func writeCosts(out io.Writer, w way, all []cost, incrBys []float64) {
	rows := [][]string{{
		"", "live bucket", "spread", "denied", "worst check, µs", "wakes, µs", "bytes a user", "a million users",
	}, slices.Repeat([]string{"---"}, 8)}
	var missed []string
	for _, c := range all {
		micros := func(d time.Duration) string {
			if d == 0 {
				return "–"
			}
			return fmt.Sprint(d.Microseconds())
		}
		rows = append(rows, []string{
			c.name, fmt.Sprintf("%.1f", c.live), fmt.Sprintf("%.1f", c.spread), fmt.Sprintf("%.1f", c.denied),
			micros(c.worst), micros(c.wakes), fmt.Sprintf("%.0f", c.bytes), fmt.Sprintf("%.2f GB", c.million/1e9),
		})
		if worst := max(c.worst, c.wakes); worst > maxCheck && !c.literal {
			missed = append(missed, fmt.Sprintf("%s by %s", c.name, worst-maxCheck))
		}
	}
	verdict := "kept by all"
	if len(missed) > 0 {
		verdict = "missed: " + strings.Join(missed, ", ")
	}
	fmt.Fprintf(out, "\n%s\nRedis CPU of a check in INCRBYs, by %s with %d checks. %s\n"+
		"The budget of %s for one check is %s.\n\n", markdown(rows), w.name, thirtyTwo.each, unit(incrBys), maxCheck, verdict)
}

// call is a call of the script.
type call struct {
	way    string
	checks int
}

// comparison is what a check costs in different calls: in each repeat its CPU, in INCRBYs.
type comparison struct {
	layout
	live, spread map[call][]float64
}

// writeComparisons prints comparisons as a table in Markdown.
func writeComparisons(out io.Writer, ways []way, all []comparison, incrBys []float64) {
	var called []call
	header := []string{"checks in a call"}
	for _, g := range groups() {
		for _, w := range ways {
			called = append(called, call{w.name, g.each})
			header = append(header, fmt.Sprintf("%d, %s", g.each, w.name))
		}
	}
	rows := [][]string{header, slices.Repeat([]string{"---"}, len(header))}
	row := func(name string, costs map[call][]float64) {
		cells := []string{name}
		for _, c := range called {
			of := costs[c]
			cells = append(cells, fmt.Sprintf("%.1f (%.1f..%.1f)", middle(of), slices.Min(of), slices.Max(of)))
		}
		rows = append(rows, cells)
	}
	for _, c := range all {
		row(c.name+", live", c.live)
		row(c.name+", spread", c.spread)
	}
	fmt.Fprintf(out, "\n%s\nRedis CPU of a check in INCRBYs: the median of %d, and all they lie between. %s\n\n",
		markdown(rows), repeats, unit(incrBys))
}

// unit tells what one INCRBY cost.
func unit(incrBys []float64) string {
	return fmt.Sprintf("One INCRBY, of 32 in a pipeline, took %.2f µs (%.2f..%.2f).",
		middle(incrBys), slices.Min(incrBys), slices.Max(incrBys))
}

func markdown(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			fill := " "
			if cell == "---" {
				fill, cell = "-", ""
			}
			b.WriteString("| " + cell + strings.Repeat(fill, widths[i]-utf8.RuneCountInString(cell)) + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// middle is the median of values, of which there is at least one.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func TestCostsAreATableThatTellsAMissedBudget(t *testing.T) {
	var out strings.Builder
	writeCosts(&out, asFunction, []cost{
		{
			layout: layout{name: "quick"}, live: 2, spread: 3.25, denied: 1,
			worst: 20 * time.Microsecond, bytes: 100, million: 1.2e8,
		},
		{layout: layout{name: "slow"}, wakes: 130 * time.Microsecond},
		{layout: layout{name: "literal", literal: true}, worst: time.Millisecond},
	}, []float64{1, 3, 2})
	for _, want := range []string{
		"| quick   | 2.0         | 3.2    | 1.0    | 20              | –         | 100          | 0.12 GB         |\n",
		"| ------- | -", "INCRBYs, by FCALL with 32 checks. One", "took 2.00 µs (1.00..3.00)",
		"for one check is missed: slow by 30µs.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestComparisonsAreATableOfMediansAndSpreads(t *testing.T) {
	costs := make(map[call][]float64)
	for _, g := range groups() {
		costs[call{asScript.name, g.each}] = []float64{float64(g.each), 1, 40}
		costs[call{asFunction.name, g.each}] = []float64{2, 3, 1}
	}
	var out strings.Builder
	one := comparison{layout: layout{name: "quick"}, live: costs, spread: costs}
	writeComparisons(&out, []way{asScript, asFunction}, []comparison{one}, []float64{1, 3, 2})
	for _, want := range []string{
		"| 4, FCALL       | 32, EVALSHA ", "| quick, live ", "| quick, spread ",
		"| 4.0 (1.0..40.0) | 2.0 (1.0..3.0) |", "took 2.00 µs (1.00..3.00)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

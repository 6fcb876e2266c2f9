package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// lateMillis is how late the client may be where load is paced, in the median, before the report warns of it.
const lateMillis = 1

// spread is a median and what lies around it.
type spread struct{ Median, Min, Max float64 }

// over takes the spread of a figure over all rounds of a scenario.
func (o outcome) over(figure func(round) float64) spread {
	var values []float64
	for _, r := range o.rounds {
		values = append(values, figure(r))
	}
	return spreadOf(values)
}

func spreadOf(values []float64) spread {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1]}
}

// budgetVerdict says in words whether a cost, in floors or in INCRBYs, keeps a budget. A budget of 0 is none.
func budgetVerdict(budget, cost float64) string {
	switch {
	case budget == 0:
		return ""
	case cost <= budget:
		return fmt.Sprintf("%.2f: met", budget)
	default: // rounded up, or a near miss would read 0.00; but not for the last bit of a difference
		return fmt.Sprintf("%.2f: missed by %.2f", budget, math.Ceil((cost-budget)*100-1e-9)/100)
	}
}

// answersVerdict says in words how many of its floor's answers a scenario gave in time, and whether that keeps its aim.
func (o outcome) answersVerdict() string {
	answers := o.over(func(r round) float64 { return r.Answers })
	var timedOut, ended float64
	for _, r := range o.rounds {
		timedOut, ended = timedOut+r.Unpaced.TimedOut, ended+r.Unpaced.Ended
	}
	verdict := "met"
	if answers.Median < o.AnswersAim {
		verdict = "missed"
	}
	return fmt.Sprintf("answers/s: %.2f of the floor's (%.2f..%.2f), at least %.2f: %s; %.0f of %.0f late; mean %.1f ms", answers.Median,
		answers.Min, answers.Max, o.AnswersAim, verdict, timedOut, ended, o.over(func(r round) float64 { return r.Unpaced.MeanMillis }).Median)
}

// report prints what a run measured, for a person.
func report(out io.Writer, o options, outcomes []outcome) error {
	var lateP50, lateP99 float64
	var b strings.Builder
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(title string, cells []string, budget string) {
		_, _ = fmt.Fprintf(columns, "%-50s\t%s\t  %s\n", title, strings.Join(cells, "\t"), budget) // a Builder takes all
	}
	row("server CPU of a request", []string{"µs", "floors", "min..max", "store µs", "INCRBYs", "min..max", "requests/s", "p50 ms",
		"p99", "half load: p50", "p99"}, "budget")
	for _, one := range outcomes {
		cells, budget := one.row()
		row(one.Title, cells, budget)
		lateP50 = max(lateP50, one.over(func(r round) float64 { return r.HalfLoad.LateP50Millis }).Median)
		lateP99 = max(lateP99, one.over(func(r round) float64 { return r.HalfLoad.LateP99Millis }).Median)
	}
	if err := columns.Flush(); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err := fmt.Fprintf(out, `
weir against the floor · %d connections, %d in flight on each · %d keys · %s %s/%s, %d CPUs

%s
Medians of %d interleaved rounds. Floors: over the floor's CPU in the same round. Only ratios of one run mean anything.
The half load is paced, at half of the rate before it; a request counts from the moment it was due. That includes how
late the client itself was: at most %.2f ms (p50) and %.2f ms (p99). INCRBYs: the CPU of Redis, over what one of 32
pipelined INCRBYs cost it right before; of memcached's scenarios that of memcached, and of its incr. Races: exchanges of
the last round whose value another weir had changed.
`, connections, o.InFlight, keys, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), b.String(), o.Rounds,
		lateP50, lateP99)
	if err == nil && lateP50 > lateMillis {
		_, err = fmt.Fprint(out, "\nThe client could not keep to its timetable: ",
			"something else keeps this machine busy. Measure again.\n")
	}
	return err
}

// row returns the scenario's figures for the table; what there is none of is a dash. The budget is judged in words.
func (o outcome) row() (cells []string, budget string) {
	known := func(format string, value float64) string {
		if value == 0 {
			return "–"
		}
		return fmt.Sprintf(format, value)
	}
	figure := func(format string, of func(round) float64) { cells = append(cells, known(format, o.over(of).Median)) }
	span := func(s spread) {
		cells = append(cells, known("%.2f", s.Median), known(fmt.Sprintf("%.2f..%%.2f", s.Min), s.Max))
	}
	floors := o.over(func(r round) float64 { return r.Floors })
	incrBys := o.over(func(r round) float64 { return r.Commands })
	figure("%.1f", func(r round) float64 { return r.Unpaced.CPUMicros })
	span(floors)
	figure("%.1f", func(r round) float64 { return r.Unpaced.StoreMicros })
	span(incrBys)
	figure("%.0f", func(r round) float64 { return r.Unpaced.RequestsPerSecond })
	figure("%.2f", func(r round) float64 { return r.Unpaced.P50Millis })
	figure("%.2f", func(r round) float64 { return r.Unpaced.P99Millis })
	figure("%.2f", func(r round) float64 { return r.HalfLoad.P50Millis })
	figure("%.2f", func(r round) float64 { return r.HalfLoad.P99Millis })
	budget = budgetVerdict(o.Budget, floors.Median)
	if o.StoreBudget > 0 {
		budget += "; store " + budgetVerdict(o.StoreBudget, incrBys.Median)
	}
	if o.AnswersAim > 0 {
		budget += o.answersVerdict()
	}
	if o.Place == onHotKey {
		last := o.rounds[len(o.rounds)-1]
		budget += fmt.Sprintf("races lost: %.0f of %.0f", last.LostRaces, last.Exchanges)
	}
	return cells, budget
}

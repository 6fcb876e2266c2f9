package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"
)

// lateMillis is how late the client may be where load is paced, in the median, before the report warns of it.
const lateMillis = 1

// report is everything that a run measured, and what a person reads of it.
type report struct {
	Subject     string    `json:"subject"` // the server that was measured, beside the floor
	Finished    time.Time `json:"finished"`
	Go          string    `json:"go"`
	Platform    string    `json:"platform"`
	CPUs        int       `json:"cpus"`
	Connections int       `json:"connections"`
	InFlight    int       `json:"in_flight"`
	Share       float64   `json:"half_load_share"` // of the full rate; what is called half load is paced at it
	Keys        int       `json:"keys"`
	Scenarios   []summary `json:"scenarios"`
}

// summary is a scenario over all rounds.
type summary struct {
	outcome
	RequestsPerSecond spread `json:"requests_per_second"`
	CPUMicros         spread `json:"cpu_us_per_request"`
	Floors            spread `json:"floors"`
	RedisMicros       spread `json:"redis_cpu_us_per_request"`
	IncrBys           spread `json:"incrbys"`
	P50Millis         spread `json:"p50_ms"`
	P99Millis         spread `json:"p99_ms"`
	HalfP50Millis     spread `json:"half_load_p50_ms"`
	HalfP99Millis     spread `json:"half_load_p99_ms"`
	LateP50Millis     spread `json:"client_late_p50_ms"`
	LateP99Millis     spread `json:"client_late_p99_ms"`
	ResidentBytes     int64  `json:"resident_bytes"`   // after the last round
	Verdict           string `json:"budget,omitempty"` // in words
}

func newReport(o options, subject string, outcomes []outcome) report {
	r := report{
		Subject: subject, Finished: time.Now().UTC(),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Connections: o.Connections, InFlight: o.InFlight, Share: o.Share, Keys: o.Keys,
	}
	for _, one := range outcomes {
		r.Scenarios = append(r.Scenarios, summarize(one))
	}
	return r
}

// summarize takes the medians of an outcome's rounds.
func summarize(o outcome) summary {
	over := func(rounds []round, figure func(round) float64) spread {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = figure(r)
		}
		return spreadOf(values)
	}
	var paced []round
	for _, r := range o.Rounds {
		if r.HalfLoad != nil {
			paced = append(paced, r)
		}
	}
	s := summary{
		outcome:           o,
		RequestsPerSecond: over(o.Rounds, func(r round) float64 { return r.Unpaced.RequestsPerSecond }),
		CPUMicros:         over(o.Rounds, func(r round) float64 { return r.Unpaced.CPUMicros }),
		Floors:            over(o.Rounds, func(r round) float64 { return r.Floors }),
		RedisMicros:       over(o.Rounds, func(r round) float64 { return r.Unpaced.RedisMicros }),
		IncrBys:           over(o.Rounds, func(r round) float64 { return r.IncrBys }),
		P50Millis:         over(o.Rounds, func(r round) float64 { return r.Unpaced.P50Millis }),
		P99Millis:         over(o.Rounds, func(r round) float64 { return r.Unpaced.P99Millis }),
		HalfP50Millis:     over(paced, func(r round) float64 { return r.HalfLoad.P50Millis }),
		HalfP99Millis:     over(paced, func(r round) float64 { return r.HalfLoad.P99Millis }),
		LateP50Millis:     over(paced, func(r round) float64 { return r.HalfLoad.LateP50Millis }),
		LateP99Millis:     over(paced, func(r round) float64 { return r.HalfLoad.LateP99Millis }),
	}
	if len(o.Rounds) > 0 {
		s.ResidentBytes = o.Rounds[len(o.Rounds)-1].ResidentBytes
	}
	s.Verdict = budgetVerdict(o.Budget, s.Floors.Median)
	if o.RedisBudget > 0 {
		s.Verdict += "; Redis " + budgetVerdict(o.RedisBudget, s.IncrBys.Median)
	}
	return s
}

// budgetVerdict says in words whether a cost, in floors or in INCRBYs, keeps a budget. A cost of 0 is unknown, a budget
// of 0 is none.
func budgetVerdict(budget, cost float64) string {
	switch {
	case budget == 0:
		return ""
	case cost == 0:
		return fmt.Sprintf("%.2f: unknown", budget)
	case cost <= budget:
		return fmt.Sprintf("%.2f: met", budget)
	default: // rounded up, or a near miss would read 0.00; but not for the last bit of a difference
		return fmt.Sprintf("%.2f: missed by %.2f", budget, math.Ceil((cost-budget)*100-1e-9)/100)
	}
}

// save writes the report as JSON.
func (r report) save(path string) error {
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	if err := os.WriteFile(path, append(encoded, '\n'), 0o644); err != nil {
		return fmt.Errorf("save the report: %w", err)
	}
	return nil
}

// write prints the report for a person.
func (r report) write(out io.Writer) error {
	rounds := 0
	rows := [][]string{{
		"server CPU of a request", "µs", "floors", "min..max", "Redis µs", "INCRBYs", "min..max", "requests/s",
		"p50 ms", "p99", pacedName(r.Share) + ": p50", "p99", "RSS MB", "budget",
	}}
	var lateP50, lateP99 float64
	for _, s := range r.Scenarios {
		rounds = len(s.Rounds)
		rows = append(rows, s.row())
		lateP50, lateP99 = max(lateP50, s.LateP50Millis.Median), max(lateP99, s.LateP99Millis.Median)
	}
	_, err := fmt.Fprintf(out, `
%s against the floor · %d connections, %d in flight on each · %d keys · %s %s, %d CPUs

%s
Medians of %d interleaved rounds. Floors: over the floor's CPU in the same round. Only ratios of one run mean anything.
The %s is paced, at %g of the rate before it; a request counts from the moment it was due. That includes how late
the client itself was: at most %.2f ms (p50) and %.2f ms (p99). RSS is that of the weir which serves the scenario and
others like it. INCRBYs: the CPU of Redis, over what one of 32 pipelined INCRBYs cost it right before.
`, r.Subject, r.Connections, r.InFlight, r.Keys, r.Go, r.Platform, r.CPUs, table(rows), rounds,
		pacedName(r.Share), r.Share, lateP50, lateP99)
	if err == nil && lateP50 > lateMillis {
		_, err = fmt.Fprint(out, "\nThe client could not keep to its timetable: ",
			"something else keeps this machine busy. Measure again.\n")
	}
	return err
}

// pacedName is what the load at a share of the full rate is called.
func pacedName(share float64) string {
	if share == 0.5 {
		return "half load"
	}
	return fmt.Sprintf("%g load", share)
}

// row returns the scenario's line of the table; what is unknown is a dash.
func (s summary) row() []string {
	known := func(format string, value float64) string {
		if value == 0 {
			return "–"
		}
		return fmt.Sprintf(format, value)
	}
	span := func(s spread) string {
		if s.Max == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f..%.2f", s.Min, s.Max)
	}
	return []string{
		s.Title, known("%.1f", s.CPUMicros.Median), known("%.2f", s.Floors.Median), span(s.Floors),
		known("%.1f", s.RedisMicros.Median), known("%.2f", s.IncrBys.Median), span(s.IncrBys),
		known("%.0f", s.RequestsPerSecond.Median), known("%.2f", s.P50Millis.Median), known("%.2f", s.P99Millis.Median),
		known("%.2f", s.HalfP50Millis.Median), known("%.2f", s.HalfP99Millis.Median),
		known("%.0f", float64(s.ResidentBytes)/(1<<20)), s.Verdict,
	}
}

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// toleratedWrong is how many answers bear one wrong verdict: a window that begins anew in mid-run admits a few.
const toleratedWrong = 1000

// sample is what one phase measured.
type sample struct {
	RequestsPerSecond            float64
	CPUMicros                    float64 // of a request, of the server
	StoreMicros                  float64 // and of its store
	P50Millis, P99Millis         float64
	MeanMillis                   float64
	Ended, TimedOut              float64 // requests; TimedOut: without an answer before their deadline
	LateP50Millis, LateP99Millis float64 // how long after they were due requests were sent; 0 if unpaced
}

// newSample puts together what a server did between two readings and what the workers saw of it.
func newSample(before, after reading, workers []*worker) (sample, error) {
	var latencies, late []time.Duration
	var wrong int
	var example error
	for _, w := range workers {
		latencies = append(latencies, w.latencies...)
		late = append(late, w.late...)
		if w.wrong > 0 {
			wrong += w.wrong
			example = fmt.Errorf("%s instead of %s", w.wrongVerdict, w.load.want)
		}
	}
	answered := after.answered - before.answered
	timedOut := after.timedOut - before.timedOut
	if answered == 0 || len(latencies) == 0 {
		return sample{}, errors.New("no request was answered")
	}
	if wrong*toleratedWrong > len(latencies) {
		return sample{}, fmt.Errorf("%d of %d answers had a wrong verdict: %w", wrong, len(latencies), example)
	}
	slices.Sort(latencies)
	slices.Sort(late)
	elapsed := after.at.Sub(before.at).Seconds()
	micros := func(cpu time.Duration) float64 { return float64(cpu.Nanoseconds()) / 1e3 / float64(answered) }
	return sample{
		RequestsPerSecond: float64(answered) / elapsed,
		CPUMicros:         micros(after.cpu - before.cpu),
		StoreMicros:       micros(after.store - before.store),
		P50Millis:         percentile(latencies, 0.5),
		P99Millis:         percentile(latencies, 0.99),
		MeanMillis:        mean(latencies),
		Ended:             float64(answered + timedOut),
		TimedOut:          float64(timedOut),
		LateP50Millis:     percentile(late, 0.5),
		LateP99Millis:     percentile(late, 0.99),
	}, nil
}

// mean returns the mean of durations in milliseconds. There is at least one.
func mean(durations []time.Duration) float64 {
	var sum float64
	for _, d := range durations {
		sum += float64(d.Nanoseconds()) / 1e6
	}
	return sum / float64(len(durations))
}

// percentile returns, in milliseconds, the smallest of the sorted durations that at least the share q (0 to 1) of them do
// not exceed, and 0 of none.
func percentile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return float64(sorted[min(max(rank, 1), len(sorted))-1].Nanoseconds()) / 1e6
}

package main

import "github.com/weirproxy/weir/server/stats"

// total is a number of some statistics that only grows, under its name in /metrics.
type total[S any] struct {
	name, help string
	value      func(S) uint64
}

// showTotals shows totals in /metrics, from the statistics as they are then.
func showTotals[S any](metrics *stats.Metrics, labels map[string]string, statistics func() S, all []total[S]) {
	for _, t := range all {
		metrics.Counter(t.name, t.help, labels, func() float64 { return float64(t.value(statistics())) })
	}
}

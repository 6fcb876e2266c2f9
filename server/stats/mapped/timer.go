package mapped

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/mapper"

	"github.com/weirproxy/weir/server/stats/ratelimit"
)

// timer shows response times.
type timer struct {
	prometheus.Collector
	observer prometheus.Observer
	name     string
	scale    float64
	used     atomic.Bool // it has a time to show
}

// Took notes how long answering a request took.
func (m *Metrics) Took(took time.Duration) {
	t := m.timer
	if t == nil {
		return
	}
	t.observer.Observe(float64(took) / float64(time.Millisecond) * t.scale)
	if !t.used.Load() {
		t.used.Store(true)
	}
}

// newTimer makes what the mapping wants response times to be shown as, nil if it drops them. Its error is what is wrong
// with the mapping.
func (m *Metrics) newTimer() (*timer, error) {
	to := m.find(ratelimit.ResponseTime, mapper.MetricTypeObserver)
	if to == nil {
		return nil, nil
	}
	kind, buckets := m.mapper.Defaults.ObserverType, m.mapper.Defaults.HistogramOptions.Buckets
	summary := m.mapper.Defaults.SummaryOptions
	if to.mapping != nil {
		kind = cmp.Or(to.mapping.ObserverType, kind)
		if o := to.mapping.HistogramOptions; o != nil && len(o.Buckets) > 0 {
			buckets = o.Buckets
		}
		if o := to.mapping.SummaryOptions; o != nil {
			summary = *o
		}
	}
	for _, label := range []string{"le", "quantile"} {
		if _, taken := to.labels[label]; taken {
			return nil, fmt.Errorf("the mapping gives %s a label %s, which Prometheus has a meaning of its own for", to.name, label)
		}
	}
	t, help := &timer{name: to.name, scale: to.scale}, cmp.Or(to.help, defaultHelp)
	if kind != mapper.ObserverTypeHistogram {
		if summary.MaxAge < 0 {
			return nil, fmt.Errorf("the max_age of %s is negative: %v", to.name, summary.MaxAge)
		}
		s := prometheus.NewSummary(prometheus.SummaryOpts{Name: to.name, Help: help, ConstLabels: to.labels,
			Objectives: objectives(summary.Quantiles), MaxAge: summary.MaxAge, AgeBuckets: summary.AgeBuckets, BufCap: summary.BufCap})
		t.Collector, t.observer = s, s
		return t, nil
	}
	if !slices.IsSortedFunc(buckets, func(a, b float64) int { return cmp.Or(cmp.Compare(a, b), -1) }) { // nor is one twice
		return nil, fmt.Errorf("the buckets of %s are not in ascending order: %v", to.name, buckets)
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: to.name, Help: help, ConstLabels: to.labels, Buckets: buckets})
	t.Collector, t.observer = h, h
	return t, nil
}

func objectives(quantiles []mapper.MetricObjective) map[float64]float64 {
	all := make(map[float64]float64, len(quantiles))
	for _, q := range quantiles {
		all[q.Quantile] = q.Error
	}
	return all
}

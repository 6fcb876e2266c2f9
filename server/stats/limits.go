package stats

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproxy/weir/server/limit"
)

// Limiter adds what the limiter decided while the store was away, and what it gave back.
func (m *Metrics) Limiter(l *limit.Limiter) {
	m.registry.MustRegister(degradedCollector{&l.Degraded})
	const help = "Checks that a refused request charged to descriptors that are not over, by whether they were given back (refund_on_deny)."
	m.Counter("weir_refunds_on_deny_total", help, map[string]string{"result": "done"},
		func() float64 { return float64(l.Refunds.Done.Load()) })
	m.Counter("weir_refunds_on_deny_total", help, map[string]string{"result": "failed"},
		func() float64 { return float64(l.Refunds.Failed.Load()) })
}

var degradedTotal = prometheus.NewDesc("weir_degraded_decisions_total",
	"Decisions made while Redis gave no answer, by rule, why it gave none, and the failure policy that decided.",
	[]string{"domain", "path", "reason", "policy"}, nil)

// degradedCollector reads the totals at each scrape.
type degradedCollector struct{ degraded *limit.Degraded }

func (degradedCollector) Describe(to chan<- *prometheus.Desc) { to <- degradedTotal }

func (c degradedCollector) Collect(to chan<- prometheus.Metric) {
	for _, t := range c.degraded.Totals() {
		to <- prometheus.MustNewConstMetric(degradedTotal, prometheus.CounterValue, float64(t.Decisions), t.Domain, t.Path,
			t.Reason.String(), t.Policy.String())
	}
}

package stats

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproxy/weir/server/hits"
)

// Hits adds the totals of each rule that has had hits. Values are no labels: requests choose them, and a scraper pays for
// each series.
func (m *Metrics) Hits(r *hits.Recorder) { m.registry.MustRegister(hitsCollector{r}) }

var (
	hitsTotal = prometheus.NewDesc("weir_hits_total",
		"Hits by rule and what became of them: within or over its limits, or degraded, decided without a store.",
		[]string{"domain", "path", "outcome"}, nil)
	nearTotal = prometheus.NewDesc("weir_near_hits_total",
		"Of the hits within, those above NEAR_LIMIT_RATIO of the limit (0.8 unless set).", []string{"domain", "path"}, nil)
	shadowTotal = prometheus.NewDesc("weir_shadow_hits_total",
		"Of the hits over, those that shadow mode let through.", []string{"domain", "path"}, nil)
)

// hitsCollector reads the recorder at each scrape.
type hitsCollector struct{ recorder *hits.Recorder }

func (hitsCollector) Describe(to chan<- *prometheus.Desc) {
	to <- hitsTotal
	to <- nearTotal
	to <- shadowTotal
}

func (c hitsCollector) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, total uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(total), labels...)
	}
	for _, t := range c.recorder.Totals() {
		send(hitsTotal, t.Within, t.Domain, t.Path, "within")
		send(hitsTotal, t.Over, t.Domain, t.Path, "over")
		send(hitsTotal, t.Degraded, t.Domain, t.Path, "degraded")
		send(nearTotal, t.Near, t.Domain, t.Path)
		send(shadowTotal, t.Shadow, t.Domain, t.Path)
	}
}

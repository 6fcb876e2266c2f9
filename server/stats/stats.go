// Package stats is what weir tells a Prometheus scraper about itself.
package stats

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// Metrics is the process's metrics. All its methods may be called by any number of goroutines.
type Metrics struct {
	registry *prometheus.Registry
	requests [limit.Outcomes]prometheus.Counter
	seconds  prometheus.Histogram
	panics   prometheus.Counter
	reloads  [2]prometheus.Counter // rejected, applied
	current  prometheus.Gauge
}

// New makes the metrics of a process of this version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	register := promauto.With(m.registry)
	requests := register.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_requests_total", Help: "Rate-limit requests answered, by outcome.",
	}, []string{"outcome"})
	for o := range m.requests {
		m.requests[o] = requests.WithLabelValues(limit.Outcome(o).String())
	}
	m.seconds = register.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_request_seconds",
		Help:    "Time from a decoded request to its encoded verdict.",
		Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3},
	})
	m.panics = register.NewCounter(prometheus.CounterOpts{
		Name: "weir_panics_total",
		Help: "Panics that were caught while a request was answered. Each is a defect: please report it.",
	})
	reloads := register.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_config_loads_total", Help: "Configurations read, by whether they were put in force.",
	}, []string{"result"})
	m.reloads = [2]prometheus.Counter{reloads.WithLabelValues("rejected"), reloads.WithLabelValues("applied")}
	m.current = register.NewGauge(prometheus.GaugeOpts{
		Name: "weir_config_current",
		Help: "1 if the configuration in force is the one that the source has, 0 if that was rejected or there is none.",
	})
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	return m
}

// Observe counts a request; it makes Metrics an rls.Observer.
func (m *Metrics) Observe(o limit.Outcome, took time.Duration) {
	m.requests[o].Inc()
	m.seconds.Observe(took.Seconds())
}

// Panicked counts a panic that was caught.
func (m *Metrics) Panicked() { m.panics.Inc() }

// ConfigLoaded counts a configuration that was read, and whether it was put in force.
func (m *Metrics) ConfigLoaded(applied bool) {
	if applied {
		m.reloads[1].Inc()
		m.current.Set(1)
	} else {
		m.reloads[0].Inc()
		m.current.Set(0)
	}
}

// Gauge adds a value that is asked for at each scrape; labels tell it from others of that name.
func (m *Metrics) Gauge(name, help string, labels map[string]string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// Counter adds a total that is asked for at each scrape; labels tell it from others of that name.
func (m *Metrics) Counter(name, help string, labels map[string]string, total func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, total))
}

// Handler serves the metrics in Prometheus's text formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Hits adds the totals of each rule that has had hits. Values are no labels: requests choose them.
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

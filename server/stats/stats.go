// Package stats is what weir tells a Prometheus scraper about itself.
package stats

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_requests_total", Help: "Rate-limit requests answered, by outcome."}, []string{"outcome"})
	for o := range m.requests {
		m.requests[o] = requests.WithLabelValues(limit.Outcome(o).String())
	}
	m.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_request_seconds",
		Help:    "Time from a decoded request to its encoded verdict.",
		Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3},
	})
	m.panics = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_panics_total",
		Help: "Panics that were caught while a request was answered. Each is a defect: please report it."})
	reloads := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_config_loads_total", Help: "Configurations read, by whether they were put in force.",
	}, []string{"result"})
	m.reloads = [2]prometheus.Counter{reloads.WithLabelValues("rejected"), reloads.WithLabelValues("applied")}
	m.current = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_config_current",
		Help: "1 if the configuration in force is the one that the source has, 0 if that was rejected or there is none."})
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		requests, m.seconds, m.panics, reloads, m.current, build)
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

// Gauge adds a value that is asked for at each scrape.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Counter adds a total that is asked for at each scrape; labels tell it from others of that name.
func (m *Metrics) Counter(name, help string, labels map[string]string, total func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, total))
}

// Handler serves the metrics in Prometheus's text formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

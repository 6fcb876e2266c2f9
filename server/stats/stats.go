// Package stats has weir's own metrics for Prometheus.
package stats

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirproxy/weir/server/connlimit"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// Metrics has the metrics of weir serve. All its methods may be called by any number of goroutines.
type Metrics struct {
	Process
	requests [limit.Results]atomic.Uint64
	latency  prometheus.Histogram
	panics   prometheus.Counter

	configsApplied, configsRejected atomic.Uint64
	configCurrent                   prometheus.Gauge
	configAppliedAt                 atomic.Int64 // Unix milliseconds
}

var requestsTotal = prometheus.NewDesc("weir_requests_total", "Rate-limit requests answered, by outcome.",
	[]string{"outcome"}, nil)

// New makes the metrics of a process of this version.
func New(version string) *Metrics {
	m := &Metrics{Process: NewProcess(version)}
	register := promauto.With(m.registry)
	m.register(func(to chan<- prometheus.Metric) { sendOutcomes(to, requestsTotal, m.Requests()) })
	m.latency = register.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_request_seconds",
		Help:    "Time from a decoded request to its encoded verdict.",
		Buckets: RequestBuckets(),
	})
	m.panics = register.NewCounter(prometheus.CounterOpts{
		Name: "weir_panics_total",
		Help: "Panics that were caught while a request was answered. Each is a defect: please report it.",
	})
	for result, n := range map[string]*atomic.Uint64{"applied": &m.configsApplied, "rejected": &m.configsRejected} {
		m.RegisterCounter("weir_config_loads_total", "Configurations read, by whether they were put in force.",
			map[string]string{"result": result}, func() float64 { return float64(n.Load()) })
	}
	m.configCurrent = register.NewGauge(prometheus.GaugeOpts{
		Name: "weir_config_current",
		Help: "1 if the configuration in force is the one that the source has, 0 if that was rejected or there is none.",
	})
	m.RegisterGauge("weir_config_loaded_timestamp_seconds",
		"When the configuration in force was put in force, in Unix seconds; 0 for never.",
		nil, func() float64 { return float64(m.configAppliedAt.Load()) / 1000 })
	return m
}

// RequestBuckets returns the upper bounds of the buckets of weir_request_seconds, in seconds.
func RequestBuckets() []float64 {
	return []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 20e-3, 50e-3}
}

// Process has the metrics of any process of weir. All its methods may be called by any number of goroutines.
type Process struct{ registry *prometheus.Registry }

// NewProcess makes the metrics that any process of this version has.
func NewProcess(version string) Process {
	p := Process{prometheus.NewRegistry()}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.RegisterGauge("weir_build_info", "Always 1; the labels say which build this is.",
		map[string]string{"version": version, "goversion": runtime.Version()}, func() float64 { return 1 })
	return p
}

// Observe counts a request, and records how long its answer took.
func (m *Metrics) Observe(r limit.Result, took time.Duration) {
	m.requests[r].Add(1)
	m.latency.Observe(took.Seconds())
}

// Requests returns how many requests have had each result.
func (m *Metrics) Requests() (n [limit.Results]uint64) {
	for o := range n {
		n[o] = m.requests[o].Load()
	}
	return n
}

// ConfigLoads returns how many configurations were put in force, and how many were rejected.
func (m *Metrics) ConfigLoads() (applied, rejected uint64) {
	return m.configsApplied.Load(), m.configsRejected.Load()
}

// CountPanic counts a recovered panic.
func (m *Metrics) CountPanic() { m.panics.Inc() }

// ConfigApplied counts a configuration that was put in force, and records when.
func (m *Metrics) ConfigApplied(now time.Time) {
	m.configsApplied.Add(1)
	m.configCurrent.Set(1)
	m.configAppliedAt.Store(now.UnixMilli())
}

// ConfigAppliedAt returns when the last configuration was put in force, or the Unix epoch before the first.
func (m *Metrics) ConfigAppliedAt() time.Time { return time.UnixMilli(m.configAppliedAt.Load()) }

// ConfigRejected counts a configuration that was not put in force, or only in part.
func (m *Metrics) ConfigRejected() {
	m.configsRejected.Add(1)
	m.configCurrent.Set(0)
}

// RegisterGauge adds a gauge whose value each scrape reads. Its labels are constant.
func (p Process) RegisterGauge(name, help string, labels map[string]string, value func() float64) {
	p.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value))
}

// RegisterGauges adds a gauge with one label. Each scrape reads the values by label value.
func (p Process) RegisterGauges(name, help, label string, values func() map[string]int) {
	d := prometheus.NewDesc(name, help, []string{label}, nil)
	p.register(func(to chan<- prometheus.Metric) {
		for labelValue, value := range values() {
			send(to, d, prometheus.GaugeValue, float64(value), labelValue)
		}
	})
}

// RegisterCounter adds a counter whose total each scrape reads. Its labels are constant.
func (p Process) RegisterCounter(name, help string, labels map[string]string, total func() float64) {
	p.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, total))
}

// RegisterRefusedTokens adds the counter of requests to the admin port with a wrong token.
func (p Process) RegisterRefusedTokens(total func() uint64) {
	p.RegisterCounter("weir_admin_refused_tokens_total", "Requests to the admin port with a wrong token.", nil,
		func() float64 { return float64(total()) })
}

// RegisterConnections adds, for each port, a gauge of its connections and counters of those that it refused.
func (p Process) RegisterConnections(all []*connlimit.Listener) {
	for _, l := range all {
		p.RegisterGauge("weir_connections", "Connections of each port.", map[string]string{"port": l.Port},
			func() float64 { return float64(l.Open()) })
		for _, r := range []connlimit.Reason{connlimit.ReasonTotal, connlimit.ReasonClient} {
			p.RegisterCounter("weir_connections_refused_total", "Connections that weir refused, by port and exceeded limit.",
				map[string]string{"port": l.Port, "reason": string(r)}, func() float64 { return float64(l.Refused(r)) })
		}
	}
}

// collector is an unchecked prometheus.Collector: it describes no series, because it learns them at each scrape.
type collector func(to chan<- prometheus.Metric)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

// register registers a collector.
func (p Process) register(c collector) { p.registry.MustRegister(c) }

// send sends one series of a metric.
func send(to chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

// Handler serves the metrics in Prometheus's text formats.
func (p Process) Handler() http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{})
}

// RegisterHits adds the totals of each rule in force, zeros too, because increase() ignores the first value of a series.
// Descriptor values do not become labels, because requests choose them.
func (m *Metrics) RegisterHits(r *hits.Recorder) {
	m.register(func(to chan<- prometheus.Metric) { sendHits(r, to) })
}

var (
	hitsTotal = prometheus.NewDesc("weir_hits_total",
		"Hits by rule and outcome: within (the limits), over (denied), shadow (over the limits, but let through) or degraded "+
			"(decided without a store).",
		[]string{"domain", "path", "outcome"}, nil)
	nearTotal = prometheus.NewDesc("weir_near_hits_total",
		"Hits within the limit, but above NEAR_LIMIT_RATIO of it (0.8 unless set).", []string{"domain", "path"}, nil)
)

// sendHits sends each metric's series in the order of the output, because sorting them would dominate a scrape of many rules.
func sendHits(r *hits.Recorder, to chan<- prometheus.Metric) {
	all := r.Totals()
	slices.SortFunc(all, func(a, b hits.Totals) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Path, b.Path))
	})
	for _, one := range []struct {
		desc   *prometheus.Desc
		total  func(t *hits.Totals) uint64
		labels []string // after domain and path
	}{
		{hitsTotal, func(t *hits.Totals) uint64 { return t.Degraded }, []string{"degraded"}},
		{hitsTotal, func(t *hits.Totals) uint64 { return t.Over }, []string{"over"}},
		{hitsTotal, func(t *hits.Totals) uint64 { return t.Shadow }, []string{"shadow"}},
		{hitsTotal, func(t *hits.Totals) uint64 { return t.Within }, []string{"within"}},
		{nearTotal, func(t *hits.Totals) uint64 { return t.Near }, nil},
	} {
		for i := range all {
			labels := append([]string{all[i].Domain, all[i].Path}, one.labels...)
			send(to, one.desc, prometheus.CounterValue, float64(one.total(&all[i])), labels...)
		}
	}
}

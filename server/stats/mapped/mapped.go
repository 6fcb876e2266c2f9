// Package mapped shows envoyproxy/ratelimit's statistics to Prometheus. Names and labels come from a mapping in the format
// of Prometheus's statsd_exporter, as that program has it.
package mapped

import (
	"cmp"
	_ "embed" // for the default mapping
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/statsd_exporter/pkg/mapper"

	"github.com/weirproxy/weir/server/stats/ratelimit"
)

//go:embed default.yaml
var defaultMapping string

// DefaultMapping returns the mapping of those who have none of their own. Response times are shown in seconds, as their
// name has it, or else in milliseconds.
func DefaultMapping(milliseconds bool) string {
	const timer = `
  - match: ratelimit_server.*.response_time
    name: ratelimit_service_response_time_seconds
    observer_type: histogram
    help: How long answering a request took, in %s.
    labels: {grpc_method: $1}
    `
	if milliseconds {
		return defaultMapping + fmt.Sprintf(timer, "milliseconds")
	}
	return defaultMapping + fmt.Sprintf(timer, "seconds") + "scale: 0.001\n    histogram_options: " +
		"{buckets: [.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10]}\n"
}

// Config says what is shown, and how.
type Config struct {
	Mapping    string            // in YAML
	Labels     map[string]string // of each series, but where the mapping has others of that name
	Statistics *ratelimit.Statistics
	Log        *slog.Logger
}

// Metrics is a prometheus.Collector of all statistics. Its methods may be called by any number of goroutines.
type Metrics struct {
	mapper     mapper.MetricMapper
	labels     prometheus.Labels
	statistics *ratelimit.Statistics
	timer      *timer // nil if the mapping drops it
	log        *slog.Logger

	mu     sync.Mutex
	scrape uint64
	named  map[string]*named  // by the name of a statistic
	series map[string]*series // by metric and labels
	shown  map[string]shown   // of each metric, by its name
}

// shown is what all series of a metric have to have in common.
type shown struct {
	kind prometheus.ValueType
	help string
}

// named is what becomes of a statistic.
type named struct {
	series *series // nil for none
	scale  float64
	scrape uint64 // the latest that found it
}

// series is what one or more statistics add up to.
type series struct {
	metric      string
	description *prometheus.Desc
	labels      []string // values
	kind        prometheus.ValueType
	value       float64
	scrape      uint64 // that the value is of
}

// New makes the collector. Its error is what is wrong with the mapping.
func New(c Config) (*Metrics, error) {
	m := &Metrics{labels: make(prometheus.Labels), statistics: c.Statistics, log: c.Log, named: make(map[string]*named),
		series: make(map[string]*series), shown: make(map[string]shown)}
	for name, value := range c.Labels {
		m.labels[labelName(name)] = strings.ToValidUTF8(value, "_")
	}
	if err := m.mapper.InitFromYAMLString(c.Mapping); err != nil {
		return nil, err
	}
	var err error
	m.timer, err = m.newTimer()
	return m, err
}

// labelName makes the name of a tag one that a label can have.
func labelName(tag string) string {
	name := strings.TrimLeft(mapper.EscapeMetricName(strings.ReplaceAll(tag, "-", "_")), "_")
	if name == "" || name == "le" || name == "quantile" || name[0] <= '9' {
		return "tag_" + name
	}
	return name
}

// Describe is Prometheus's. The series come with the rules, so there is nothing to say beforehand.
func (*Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect is Prometheus's.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scrape++
	var found []*series
	m.statistics.Each(func(name string, kind ratelimit.Kind, value uint64) {
		n := m.named[name]
		if n == nil {
			n = m.name(name, kind)
			m.named[name] = n
		}
		n.scrape = m.scrape
		s := n.series
		if s == nil {
			return
		}
		if s.scrape != m.scrape {
			s.value, s.scrape = 0, m.scrape
			found = append(found, s)
		}
		s.value += float64(value) * n.scale
	})
	for _, s := range found {
		metric, err := prometheus.NewConstMetric(s.description, s.kind, s.value, s.labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(s.description, err)
		}
		to <- metric
	}
	if m.timer != nil && m.timer.used.Load() {
		m.timer.Collect(to)
	}
	m.forget()
}

// forget lets go of what this scrape has not found.
func (m *Metrics) forget() {
	maps.DeleteFunc(m.named, func(_ string, n *named) bool { return n.scrape != m.scrape })
	before := len(m.series)
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.scrape != m.scrape })
	if len(m.series) < before {
		last := maps.Clone(m.shown)
		clear(m.shown)
		for _, s := range m.series {
			m.shown[s.metric] = last[s.metric]
		}
	}
}

// name finds out where a statistic is shown.
func (m *Metrics) name(name string, kind ratelimit.Kind) *named {
	typ, value := mapper.MetricTypeCounter, prometheus.CounterValue
	if kind == ratelimit.Gauge {
		typ, value = mapper.MetricTypeGauge, prometheus.GaugeValue
	}
	to := m.find(name, typ)
	if to == nil {
		return &named{}
	}
	if m.timer != nil && to.name == m.timer.name {
		return m.refuse(to.name, name)
	}
	metric, known := m.shown[to.name]
	if !known {
		metric = shown{kind: value, help: cmp.Or(to.help, defaultHelp)}
		m.shown[to.name] = metric
	}
	if metric.kind != value {
		return m.refuse(to.name, name)
	}
	labels, values := to.sorted()
	id := strings.Join(append(append([]string{to.name}, labels...), values...), "\xff")
	if m.series[id] == nil {
		m.series[id] = &series{metric: to.name, description: prometheus.NewDesc(to.name, metric.help, labels, nil),
			labels: values, kind: value}
	}
	return &named{series: m.series[id], scale: to.scale}
}

const defaultHelp = "A statistic of envoyproxy/ratelimit's."

// refuse shows a statistic nowhere, as its metric's name is taken by one of another kind.
func (m *Metrics) refuse(metric, statistic string) *named {
	m.log.Warn("PROMETHEUS_MAPPER_YAML gives statistics of several kinds one name: only the first to come is shown",
		"name", metric, "not_shown", statistic)
	return &named{}
}

// target is the metric that a statistic is shown as.
type target struct {
	name, help string
	labels     prometheus.Labels
	scale      float64
	mapping    *mapper.MetricMapping // nil for none
}

// find returns the target of a statistic, nil if it is not shown. What no mapping matches goes by its own name.
func (m *Metrics) find(name string, kind mapper.MetricType) *target {
	to := &target{name: mapper.EscapeMetricName(name), labels: maps.Clone(m.labels), scale: 1}
	mapping, labels, matched := m.mapper.GetMapping(name, kind)
	if !matched {
		return to
	}
	if mapping.Action == mapper.ActionTypeDrop || mapping.Name == "" {
		return nil
	}
	to.name, to.help, to.mapping = mapper.EscapeMetricName(mapping.Name), mapping.HelpText, mapping
	for label, value := range labels {
		if _, tagged := to.labels[label]; !tagged || !mapping.HonorLabels {
			to.labels[label] = value
		}
	}
	if mapping.Scale.Set {
		to.scale = mapping.Scale.Val
	}
	return to
}

// sorted returns the labels, and the value of each.
func (t *target) sorted() (labels, values []string) {
	labels = slices.Sorted(maps.Keys(t.labels))
	for _, label := range labels {
		values = append(values, t.labels[label])
	}
	return labels, values
}

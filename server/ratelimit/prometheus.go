package ratelimit

import (
	"cmp"
	_ "embed" // for the default mapping
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
	"github.com/prometheus/statsd_exporter/pkg/registry"

	"github.com/weirproxy/weir/server/connlimit"
)

//go:embed default.yaml
var defaultMapping string

// DefaultMapping returns the default mapping. Response times are in seconds, as the metric's name says, unless
// milliseconds is set.
func DefaultMapping(milliseconds bool) string {
	const timer = `
  - match: ratelimit_server.*.response_time
    name: ratelimit_service_response_time_seconds
    observer_type: histogram
    help: How long answering a call took, in %s.
    labels: {grpc_method: $1}
    `
	if milliseconds {
		return defaultMapping + fmt.Sprintf(timer, "milliseconds")
	}
	return defaultMapping + fmt.Sprintf(timer, "seconds") + "scale: 0.001\n    histogram_options: " +
		"{buckets: [.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10]}\n"
}

// PrometheusConfig has the statistics that Prometheus scrapes, and their mapping to metrics.
type PrometheusConfig struct {
	Mapping    string            // in YAML
	Labels     map[string]string // labels of each series; the mapping may override them
	Statistics *Statistics
	Log        *slog.Logger
}

// Prometheus shows the statistics to Prometheus. Its methods may be called by any number of goroutines.
type Prometheus struct {
	config   PrometheusConfig
	labels   prometheus.Labels
	mapper   mapper.MetricMapper
	registry *prometheus.Registry
	vectors  *prometheus.GaugeVec          // counts vectors, as the library requires
	timers   [Methods]func() func(float64) // returns a method's observer of response times; the first call makes its series

	mu             sync.Mutex
	seriesRegistry *registry.Registry         // the series, by metric and labels
	helps          map[string]string          // by metric, whose series must share one
	shown          map[string]*shownStatistic // by the name of the statistic
}

// shownStatistic is a statistic with its series.
type shownStatistic struct {
	show  func(float64) // adds to a counter, or sets a gauge
	total uint64        // of a counter, when it was last shown
}

// NewPrometheus makes the metrics. It returns an error if the mapping is wrong.
func NewPrometheus(c PrometheusConfig) (*Prometheus, error) {
	p := &Prometheus{config: c, labels: make(prometheus.Labels), helps: make(map[string]string), shown: make(map[string]*shownStatistic),
		vectors: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "vectors"}, []string{"type"})}
	for name, value := range c.Labels {
		p.labels[labelName(name)] = strings.ToValidUTF8(value, "_")
	}
	if err := p.mapper.InitFromYAMLString(c.Mapping); err != nil {
		return nil, err
	}
	p.reset()
	for method := range Method(Methods) {
		if err := p.checkTimer(method.ResponseTime()); err != nil {
			return nil, err
		}
		p.timers[method] = sync.OnceValue(func() func(float64) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.mappedSeries(method.ResponseTime(), mapper.MetricTypeObserver)
		})
	}
	p.reset()
	return p, nil
}

// reset deletes all series except those of Go and the process.
func (p *Prometheus) reset() {
	p.registry = prometheus.NewRegistry()
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.seriesRegistry = registry.NewRegistry(p.registry, &p.mapper)
}

// checkTimer returns an error if the mapping of a timer is wrong: the library panics on wrong buckets and labels.
func (p *Prometheus) checkTimer(name string) (err error) {
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("the mapping of %s: %v", name, wrong)
		}
	}()
	p.mappedSeries(name, mapper.MetricTypeObserver)
	return nil
}

// labelName turns the name of a tag into a valid label name.
func labelName(tag string) string {
	name := strings.TrimLeft(mapper.EscapeMetricName(strings.ReplaceAll(tag, "-", "_")), "_")
	if name == "" || name == "le" || name == "quantile" || name[0] <= '9' {
		return "tag_" + name
	}
	return name
}

// Observe records how long answering a call took.
func (p *Prometheus) Observe(method Method, took time.Duration) {
	p.timers[method]()(float64(took) / float64(time.Millisecond))
}

// update updates all series.
func (p *Prometheus) update() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.config.Statistics.Each(func(name string, value uint64, isGauge bool) {
		s := p.shown[name]
		if s == nil {
			typ := mapper.MetricTypeCounter
			if isGauge {
				typ = mapper.MetricTypeGauge
			}
			s = &shownStatistic{show: p.mappedSeries(name, typ)}
			p.shown[name] = s
		}
		if !isGauge {
			value, s.total = value-min(value, s.total), value
		}
		s.show(float64(value))
	})
}

// Handler serves the statistics in Prometheus's text formats, with those of Go and the process.
func (p *Prometheus) Handler() http.Handler {
	text := promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, // one bad series does not take the others away
		ErrorLog:      slog.NewLogLogger(p.config.Log.Handler(), slog.LevelWarn),
	})
	return make(connlimit.Semaphore, connlimit.Scrapes).Bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.update()
		text.ServeHTTP(w, r)
	}), connlimit.ScrapeTimeout)
}

// mappedSeries returns a function that shows values of a statistic. It shows nothing if the mapping drops the
// statistic, or if a metric of another kind has its metric's name. A statistic without a mapping gives its name to the
// metric.
func (p *Prometheus) mappedSeries(statistic string, kind mapper.MetricType) func(float64) {
	discard := func(float64) {}
	name, labels := mapper.EscapeMetricName(statistic), maps.Clone(p.labels)
	mapping, matched, found := p.mapper.GetMapping(statistic, kind)
	switch {
	case !found:
		mapping = new(mapper.MetricMapping)
	case mapping.Action == mapper.ActionTypeDrop || mapping.Name == "":
		return discard
	default:
		name = mapper.EscapeMetricName(mapping.Name)
	}
	for label, value := range matched {
		if _, tagged := labels[label]; !tagged || !mapping.HonorLabels {
			labels[label] = value
		}
	}
	help := cmp.Or(p.helps[name], mapping.HelpText, "A statistic of envoyproxy/ratelimit's.")
	p.helps[name] = help
	show, err := p.series(name, labels, help, mapping, kind)
	if err != nil {
		p.config.Log.Warn("statistic not shown: another kind of metric has its name", "name", name,
			"not_shown", statistic, "error", err)
		return discard
	}
	if !mapping.Scale.Set {
		return show
	}
	return func(value float64) { show(value * mapping.Scale.Val) }
}

// series returns a function that shows values of a series, which it makes if needed.
func (p *Prometheus) series(name string, labels prometheus.Labels, help string, mapping *mapper.MetricMapping,
	kind mapper.MetricType) (func(float64), error) {
	switch kind {
	case mapper.MetricTypeCounter:
		counter, err := p.seriesRegistry.GetCounter(name, labels, help, mapping, p.vectors)
		return func(more float64) { counter.Add(more) }, err
	case mapper.MetricTypeGauge:
		gauge, err := p.seriesRegistry.GetGauge(name, labels, help, mapping, p.vectors)
		return func(value float64) { gauge.Set(value) }, err
	}
	get := p.seriesRegistry.GetSummary
	if cmp.Or(mapping.ObserverType, p.mapper.Defaults.ObserverType) == mapper.ObserverTypeHistogram {
		get = p.seriesRegistry.GetHistogram
	}
	observer, err := get(name, labels, help, mapping, p.vectors)
	return func(value float64) { observer.Observe(value) }, err
}

// Package otlp exports hits and response times to an OpenTelemetry collector, as totals since the process began: the
// next export makes up for a failed one, and for a restart of the collector.
package otlp

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

const (
	// scope is the instrumentation scope.
	scope = "github.com/weirproxy/weir"
	// maxPoints is how many points one export may have: collectors refuse messages above 4 MiB.
	maxPoints = 8000
	// keepRemoved is how long a removed rule is exported after its last hit, in case the collector is down.
	keepRemoved = 24 * time.Hour
)

// Config configures the export. The exporter and its interval also read the environment variables OTEL_EXPORTER_OTLP_*
// and OTEL_METRIC_EXPORT_*.
type Config struct {
	GRPC     bool // export by gRPC, else by HTTP with protobuf
	Resource *resource.Resource
	Buckets  []float64 // upper bounds of the buckets of response times, in seconds
	Recorder *hits.Recorder
	OnExport func(err error) // called after each export
	Now      func() time.Time
}

// Sink exports totals at each interval. Its methods may be called by any number of goroutines.
type Sink struct {
	config   Config
	provider *sdk.MeterProvider
	latency  api.Float64Histogram

	mu           sync.Mutex
	rules        map[ruleName]*rule
	lastProduced time.Time             // when Produce last ran: a rule that is not in the map had no hits until then
	pending      map[history.ID]uint64 // drained from the recorder, but not yet returned by Drain
}

type ruleName struct{ domain, path string }

// rule has the totals of a rule.
type rule struct {
	start    time.Time // of the totals
	lastSeen time.Time // when it last had hits, or was in the configuration
	series   map[series]uint64
	values   [history.WholeOutcomes]int // how many values have series, by outcome
}

// series identifies the hits of one outcome of a rule and, if it has values, of one value.
type series struct {
	outcome history.Outcome
	value   string
}

// New makes a sink, which exports until Close. It does not connect: a missing collector is no error.
func New(ctx context.Context, c Config) (*Sink, error) {
	exporter, err := newExporter(ctx, c.GRPC)
	if err != nil {
		return nil, err
	}
	s := &Sink{config: c, rules: make(map[ruleName]*rule), lastProduced: c.Now(), pending: make(map[history.ID]uint64)}
	reader := sdk.NewPeriodicReader(&notifyingExporter{exporter, c.OnExport}, sdk.WithProducer(s), sdk.WithMaxExportBatchSize(maxPoints))
	s.provider = sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(c.Resource))
	s.latency, err = s.provider.Meter(scope).Float64Histogram("weir.request", api.WithUnit("s"),
		api.WithDescription("Time from a decoded request to its encoded verdict."), api.WithExplicitBucketBoundaries(c.Buckets...))
	return s, err
}

func newExporter(ctx context.Context, byGRPC bool) (sdk.Exporter, error) {
	if byGRPC {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// Close exports the last totals, until ctx ends.
func (s *Sink) Close(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// Observe records a response time; a sampled trace of the request becomes its exemplar.
func (s *Sink) Observe(ctx context.Context, took time.Duration) {
	s.latency.Record(ctx, took.Seconds())
}

// Drain replaces the recorder's Drain for other callers, because only the sink may drain the recorder.
func (s *Sink) Drain(now time.Time, emit func(id history.ID, hits uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain(now)
	for id, n := range s.pending {
		emit(id, n)
	}
	clear(s.pending)
}

// drain adds the hits since its last call to the totals. sweep is the time of the recorder's sweep of removed rules;
// a zero time skips the sweep.
func (s *Sink) drain(sweep time.Time) {
	now := s.config.Now()
	s.config.Recorder.Drain(sweep, func(id history.ID, n uint64) {
		s.pending[id] += n
		s.count(id, n, now)
	})
}

// count adds hits to the totals. For each rule and outcome the first [rulestats.MaxValues] values have series; the
// others share one.
func (s *Sink) count(id history.ID, n uint64, now time.Time) {
	r := s.rule(id.Domain, id.Path)
	r.lastSeen = now
	key := series{id.Outcome, id.Value}
	if history.IsPersonal(id.Value) && !r.admit(key) {
		key.value = history.OtherValue
	}
	r.series[key] += n
}

// admit returns true if a value has a series, or gets one now because there is room. A value's near hits need no room
// of their own beside its hits within.
func (r *rule) admit(key series) bool {
	if key.outcome == history.Near {
		key.outcome = history.Within
	}
	if _, exists := r.series[key]; exists {
		return true
	}
	if r.values[key.outcome] >= rulestats.MaxValues {
		return false
	}
	r.values[key.outcome]++
	r.series[key] = 0
	return true
}

// rule returns a rule. A new one had no hits before the last Produce.
func (s *Sink) rule(domain, path string) *rule {
	r := s.rules[ruleName{domain, path}]
	if r == nil {
		r = &rule{start: s.lastProduced, series: make(map[series]uint64)}
		s.rules[ruleName{domain, path}] = r
	}
	return r
}

// Produce returns the totals, for the SDK. A rule without hits has totals of 0, so that its first hits are an increase.
func (s *Sink) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	s.drain(time.Time{}) // no sweep: two sweeps must not follow closely, and Drain has them
	for _, t := range s.config.Recorder.Totals() {
		r := s.rule(t.Domain, t.Path)
		r.lastSeen = now
		for o := range history.Outcomes {
			r.series[series{outcome: history.Outcome(o)}] += 0
		}
	}
	points := make(map[bool][]metricdata.DataPoint[int64]) // by whether hits are near
	for name, r := range s.rules {
		if now.Sub(r.lastSeen) > keepRemoved {
			delete(s.rules, name)
			continue
		}
		for key, n := range r.series {
			near := key.outcome == history.Near
			points[near] = append(points[near], metricdata.DataPoint[int64]{Attributes: attributes(name, key), StartTime: r.start, Time: now, Value: int64(n)})
		}
	}
	s.lastProduced = now
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: []metricdata.Metrics{
		sum("weir.hits", "Hits by rule and outcome.", points[false]),
		sum("weir.near_hits", "Hits within the limit, but near it.", points[true]),
	}}}, nil
}

func sum(name, help string, points []metricdata.DataPoint[int64]) metricdata.Metrics {
	return metricdata.Metrics{Name: name, Description: help, Unit: "{hit}", Data: metricdata.Sum[int64]{
		DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}}
}

// attributes returns the attributes of a series, named like the labels on /metrics.
func attributes(name ruleName, key series) attribute.Set {
	all := []attribute.KeyValue{attribute.String("domain", name.domain), attribute.String("path", name.path)}
	if key.outcome != history.Near {
		all = append(all, attribute.String("outcome", key.outcome.String()))
	}
	if key.value != "" {
		all = append(all, attribute.String("value", key.value))
	}
	return attribute.NewSet(all...)
}

// notifyingExporter reports the result of each export.
type notifyingExporter struct {
	sdk.Exporter
	onExport func(error)
}

// Export implements sdk.Exporter. It returns no error, because the SDK would log it a second time.
func (e *notifyingExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.onExport(e.Exporter.Export(ctx, m))
	return nil
}

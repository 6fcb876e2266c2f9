// Package otlp sends hits, and how long answers took, to an OpenTelemetry collector. All are totals since the process
// began, so that a lost export, or a collector that restarts, loses nothing: the next export has it all.
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
	// scope names what measures.
	scope = "github.com/weirproxy/weir"
	// maxPoints is how many points one export has at most: collectors refuse messages above 4 MiB.
	maxPoints = 8000
	// keepGone is how long a rule that the configuration no longer has is sent after its last hit, so that a collector
	// that was away for less gets it.
	keepGone = 24 * time.Hour
)

// Config says what is sent and where to. The exporter and its interval read more from the process's variables
// OTEL_EXPORTER_OTLP_* and OTEL_METRIC_EXPORT_*.
type Config struct {
	GRPC     bool // export by gRPC, else by HTTP with protobuf
	Resource *resource.Resource
	Buckets  []float64 // upper bounds of those of answers' times, in seconds
	Recorder *hits.Recorder
	Exported func(err error) // called after each export
	Now      func() time.Time
}

// Sink sends totals at each interval. Its methods may be called by any number of goroutines.
type Sink struct {
	config   Config
	provider *sdk.MeterProvider
	seconds  api.Float64Histogram

	mu      sync.Mutex
	rules   map[ruleName]*rule
	counted time.Time             // until when all rules that are not among them have had no hits
	drained map[history.ID]uint64 // for who else drains the recorder
}

type ruleName struct{ domain, path string }

// rule is what was counted for a rule.
type rule struct {
	start  time.Time // of the totals
	last   time.Time // when there were hits, or the configuration had it
	series map[series]uint64
	values [history.WholeOutcomes]int // that have series of their own
}

// series are the hits of one outcome of a rule and, if it tells values apart, of one value.
type series struct {
	outcome history.Outcome
	value   string
}

// New makes a sink, which sends until it is closed. It does not connect: a collector that is away is no error.
func New(ctx context.Context, c Config) (*Sink, error) {
	exporter, err := newExporter(ctx, c.GRPC)
	if err != nil {
		return nil, err
	}
	s := &Sink{config: c, rules: make(map[ruleName]*rule), counted: c.Now(), drained: make(map[history.ID]uint64)}
	reader := sdk.NewPeriodicReader(&watched{exporter, c.Exported}, sdk.WithProducer(s), sdk.WithMaxExportBatchSize(maxPoints))
	s.provider = sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithResource(c.Resource))
	s.seconds, err = s.provider.Meter(scope).Float64Histogram("weir.request", api.WithUnit("s"),
		api.WithDescription("Time from a decoded request to its encoded verdict."), api.WithExplicitBucketBoundaries(c.Buckets...))
	return s, err
}

func newExporter(ctx context.Context, byGRPC bool) (sdk.Exporter, error) {
	if byGRPC {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

// Close sends the last totals, until ctx ends.
func (s *Sink) Close(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// Took notes how long an answer took; its trace, if the request has one that is sampled, becomes an example of that.
func (s *Sink) Took(ctx context.Context, took time.Duration) { s.seconds.Record(ctx, took.Seconds()) }

// Drain is the recorder's, for whoever else needs what is counted: nobody may call that.
func (s *Sink) Drain(now time.Time, emit func(id history.ID, hits uint64)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain(now)
	for id, n := range s.drained {
		emit(id, n)
	}
	clear(s.drained)
}

// drain adds what was counted since the last time to the totals. The recorder drops the rules that are gone by sweep, unless it is zero.
func (s *Sink) drain(sweep time.Time) {
	now := s.config.Now()
	s.config.Recorder.Drain(sweep, func(id history.ID, n uint64) {
		s.drained[id] += n
		s.count(id, n, now)
	})
}

// count adds hits of a series of the history. Of each rule and outcome the first [rulestats.MaxValues] values have
// series of their own, all others one.
func (s *Sink) count(id history.ID, n uint64, now time.Time) {
	r := s.rule(id.Domain, id.Path)
	r.last = now
	of := series{id.Outcome, id.Value}
	if history.IsPersonal(id.Value) && !r.admit(of) {
		of.value = history.OtherValue
	}
	r.series[of] += n
}

// admit reports whether a value has a series of its own. Near hits have one if those within have.
func (r *rule) admit(of series) bool {
	if of.outcome == history.Near {
		of.outcome = history.Within
	}
	if _, known := r.series[of]; known {
		return true
	}
	if r.values[of.outcome] >= rulestats.MaxValues {
		return false
	}
	r.values[of.outcome]++
	r.series[of] = 0
	return true
}

// rule returns a rule. One that is new had no hits before all were last asked for.
func (s *Sink) rule(domain, path string) *rule {
	r := s.rules[ruleName{domain, path}]
	if r == nil {
		r = &rule{start: s.counted, series: make(map[series]uint64)}
		s.rules[ruleName{domain, path}] = r
	}
	return r
}

// Produce returns the totals, for the SDK. A rule without hits has totals of 0: who compares totals finds its first hits.
func (s *Sink) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now()
	s.drain(time.Time{}) // dropping rules needs two drains that are apart: those of the history
	for _, t := range s.config.Recorder.Totals() {
		r := s.rule(t.Domain, t.Path)
		r.last = now
		for o := range history.Outcomes {
			r.series[series{outcome: history.Outcome(o)}] += 0
		}
	}
	points := make(map[bool][]metricdata.DataPoint[int64]) // by whether they are of near hits
	for name, r := range s.rules {
		if now.Sub(r.last) > keepGone {
			delete(s.rules, name)
			continue
		}
		for of, n := range r.series {
			near := of.outcome == history.Near
			points[near] = append(points[near], metricdata.DataPoint[int64]{Attributes: attributes(name, of), StartTime: r.start, Time: now, Value: int64(n)})
		}
	}
	s.counted = now
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: []metricdata.Metrics{
		sum("weir.hits", "Hits by rule and what became of them.", points[false]),
		sum("weir.near_hits", "Of the hits within, those near the limit.", points[true]),
	}}}, nil
}

func sum(name, help string, points []metricdata.DataPoint[int64]) metricdata.Metrics {
	return metricdata.Metrics{Name: name, Description: help, Unit: "{hit}", Data: metricdata.Sum[int64]{
		DataPoints: points, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}}
}

// attributes returns those of a series, named as the labels on /metrics.
func attributes(name ruleName, of series) attribute.Set {
	all := []attribute.KeyValue{attribute.String("domain", name.domain), attribute.String("path", name.path)}
	if of.outcome != history.Near {
		all = append(all, attribute.String("outcome", of.outcome.String()))
	}
	if of.value != "" {
		all = append(all, attribute.String("value", of.value))
	}
	return attribute.NewSet(all...)
}

// watched tells of each export.
type watched struct {
	sdk.Exporter
	exported func(error)
}

// Export is the SDK's. It returns no error, which the SDK would log once more.
func (w *watched) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	w.exported(w.Exporter.Export(ctx, m))
	return nil
}

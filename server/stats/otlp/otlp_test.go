package otlp

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
	"github.com/weirproxy/weir/server/stats/otlp/otlptest"
)

const rules = "domain: shop\ndescriptors:\n- {key: user, value_to_metric: true, rate_limit: {requests_per_unit: 10, unit: day}}\n" +
	"- {key: path, rate_limit: {requests_per_unit: 10, unit: day}}"

// world has a sink, the recorder that it drains, and the collector that it exports to.
type world struct {
	*Sink
	recorder       *hits.Recorder
	table          *hits.Table
	config         *descriptors.Config
	receiver       *otlptest.Receiver
	done, failures atomic.Int64
	now            time.Time
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, values int, byGRPC bool, variables ...string) *world {
	t.Helper()
	w := &world{recorder: hits.New(values), config: fixture.Config(t, rules), receiver: otlptest.Start(t), now: noon}
	w.table = w.recorder.Table(w.config)
	endpoint := map[bool]string{true: w.receiver.GRPC, false: w.receiver.HTTP}[byGRPC]
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+endpoint)
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000") // the tests export
	for i := 0; i < len(variables); i += 2 {
		t.Setenv(variables[i], variables[i+1])
	}
	var err error
	w.Sink, err = New(t.Context(), Config{GRPC: byGRPC, Recorder: w.recorder, Buckets: []float64{0.001, 0.01},
		Resource: resource.NewSchemaless(attribute.String("service.instance.id", "weir-0")),
		OnExport: func(err error) {
			if err == nil {
				w.done.Add(1)
			} else {
				w.failures.Add(1)
			}
		}, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	return w
}

// hit records n hits of a descriptor with one entry, under a limit of 10.
func (w *world) hit(key, value string, n uint64) {
	d := descriptors.Descriptor{{Key: key, Value: value}}
	rule := w.config.Match("shop", d).Rule
	w.table.Counter(rule, "shop").Record(&hits.Event{Rule: rule, Descriptor: d, Check: &backend.Check{
		Limits: []descriptors.Limit{{Requests: 10}}, Hits: n, Charge: descriptors.ChargeAdmitted},
		Decision: &backend.Decision{Allowed: n <= 10, Before: 0}}, hits.Modes{NearRatio: 0.8})
}

// flush exports now, and returns a metric's totals in the collector.
func (w *world) flush(t *testing.T, metric string) map[string]int64 {
	t.Helper()
	if err := w.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, _ := w.receiver.Last(metric)
	return otlptest.Points(found)
}

func wantPoints(t *testing.T, got map[string]int64, want map[string]int64) {
	t.Helper()
	for name, n := range maps.Clone(got) {
		if _, named := want[name]; !named && n == 0 {
			delete(got, name)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the collector has %v, want %v, and 0 of all others", got, want)
	}
}

func TestTotalsReachACollector(t *testing.T) {
	for _, byGRPC := range []bool{true, false} {
		t.Run(fmt.Sprint("grpc ", byGRPC), func(t *testing.T) {
			w := newWorld(t, 10, byGRPC, "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
			w.hit("path", "/pay", 9)
			w.hit("user", "ann", 3)
			w.hit("user", "bob", 11)
			wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within path": 9, "shop within user user=ann": 3, "shop over user user=bob": 11})
			wantPoints(t, w.flush(t, "weir.near_hits"), map[string]int64{"shop path": 1})
			found, of := w.receiver.Last("weir.hits")
			sum := found.GetSum()
			if !sum.IsMonotonic || sum.AggregationTemporality.String() != "AGGREGATION_TEMPORALITY_CUMULATIVE" ||
				otlptest.Attribute(of, "service.instance.id") != "weir-0" {
				t.Errorf("the totals are %v, of %v: want cumulative ones of instance weir-0", sum, of)
			}
			if !byGRPC && (w.receiver.Header("Content-Encoding") != "gzip" || w.receiver.Header("X-Tenant") != "blue") {
				t.Error("the export was not compressed, or lacks the header: want what the variables say")
			}
		})
	}
}

// The sink verifies a collector's certificate with the authority that an environment variable names.
func TestTotalsReachACollectorByTLS(t *testing.T) {
	for _, byGRPC := range []bool{true, false} {
		t.Run(fmt.Sprint("grpc ", byGRPC), func(t *testing.T) {
			authority, file := certstest.New(t, "authority"), filepath.Join(t.TempDir(), "ca.crt")
			if err := os.WriteFile(file, authority.PEM, 0o600); err != nil {
				t.Fatal(err)
			}
			receiver := otlptest.StartTLS(t, &tls.Config{Certificates: []tls.Certificate{authority.KeyPair(t, "127.0.0.1")}})
			endpoint := map[bool]string{true: receiver.GRPC, false: receiver.HTTP}[byGRPC]
			w := newWorld(t, 10, byGRPC, "OTEL_EXPORTER_OTLP_ENDPOINT", "https://"+endpoint, "OTEL_EXPORTER_OTLP_CERTIFICATE", file)
			w.receiver = receiver
			w.hit("path", "/pay", 9)
			wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within path": 9})
		})
	}
}

// The next successful export has all hits of the failed ones, and the same start time.
func TestARefusedExportLosesNoHit(t *testing.T) {
	w := newWorld(t, 10, true)
	w.hit("path", "/a", 1)
	w.flush(t, "weir.hits")
	w.receiver.Refuse()
	w.hit("path", "/a", 2)
	w.flush(t, "weir.hits")
	w.receiver.Answer()
	w.now = noon.Add(time.Hour)
	w.hit("path", "/a", 4)
	wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within path": 7})
	found, _ := w.receiver.Last("weir.hits")
	for _, p := range found.GetSum().DataPoints {
		if p.StartTimeUnixNano != uint64(noon.UnixNano()) {
			t.Errorf("a total counts since %d, want %d in every export", p.StartTimeUnixNano, noon.UnixNano())
		}
	}
	if w.failures.Load() != 1 || w.done.Load() != 2 {
		t.Errorf("%d exports failed and %d were done, want 1 and 2", w.failures.Load(), w.done.Load())
	}
}

// The history, which drains through the sink, gets each hit once, however often totals are exported meanwhile.
func TestTheHistoryGetsEachHitOnce(t *testing.T) {
	w, got := newWorld(t, 10, true), make(map[history.ID]uint64)
	for i := range 6 {
		w.hit("user", "ann", 1)
		if i%2 == 0 {
			w.flush(t, "weir.hits")
		}
		if i%3 == 2 {
			w.Drain(w.now, func(id history.ID, n uint64) { got[id] += n })
		}
	}
	want := history.ID{Domain: "shop", Path: "user", Value: "user=ann"}
	if got[want] != 6 || len(got) != 1 {
		t.Errorf("the history got %v, want 6 hits of %v", got, want)
	}
	wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within user user=ann": 6})
}

// The number of values with series is bounded, as in envoyproxy/ratelimit's statistics; the sum of all stays exact.
func TestValuesBeyondTheBoundAreOthers(t *testing.T) {
	const each, extra = 2, 7
	w := newWorld(t, 1000, true)
	for i := range rulestats.MaxValues + extra {
		w.hit("user", fmt.Sprint("user-", i), each)
		w.flush(t, "weir.hits") // one at a time: all that are drained at once come in no order
	}
	got := w.flush(t, "weir.hits")
	var sum int64
	series := 0
	for _, n := range got {
		if sum += n; n > 0 {
			series++
		}
	}
	if sum != each*(rulestats.MaxValues+extra) || series != rulestats.MaxValues+1 || got["shop within user __other__"] != each*extra {
		t.Errorf("%d series of %d hits, %d of them others; want %d of %d and %d", series, sum, got["shop within user __other__"],
			rulestats.MaxValues+1, each*(rulestats.MaxValues+extra), each*extra)
	}
}

// A removed rule is exported for a day, in case the collector is down. If the rule returns later, its totals begin at 0,
// with a new start time.
func TestARuleThatReturnsBeginsAnew(t *testing.T) {
	w := newWorld(t, 10, true)
	w.hit("path", "/a", 5)
	w.flush(t, "weir.hits")
	whole := w.config
	w.table = w.recorder.Table(fixture.Config(t, "domain: shop\ndescriptors: [{key: other, rate_limit: {unlimited: true}}]"))
	for hour := range 3 { // the recorder forgets the rule
		w.Drain(noon.Add(time.Duration(hour)*time.Hour), func(history.ID, uint64) {})
	}
	w.now = noon.Add(23 * time.Hour)
	wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within path": 5})
	w.now = noon.Add(25 * time.Hour)
	wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{})
	w.table = w.recorder.Table(whole)
	w.hit("path", "/a", 2)
	before := w.now
	w.now = noon.Add(26 * time.Hour)
	wantPoints(t, w.flush(t, "weir.hits"), map[string]int64{"shop within path": 2})
	found, _ := w.receiver.Last("weir.hits")
	for _, p := range found.GetSum().DataPoints {
		if p.GetAsInt() == 2 && p.StartTimeUnixNano != uint64(before.UnixNano()) {
			t.Errorf("the total of the rule counts since %d, want %d, when it was last seen not to be", p.StartTimeUnixNano, before.UnixNano())
		}
	}
}

func TestTimesCarryTheTraceOfSampledRequests(t *testing.T) {
	w := newWorld(t, 10, true)
	tracer := sdktrace.NewTracerProvider().Tracer("test")
	ctx, span := tracer.Start(t.Context(), "request")
	w.Observe(t.Context(), 5*time.Millisecond)
	w.Observe(ctx, 2*time.Millisecond)
	w.flush(t, "weir.hits")
	found, _ := w.receiver.Last("weir.request")
	points := found.GetHistogram().GetDataPoints()
	if found.GetUnit() != "s" || len(points) != 1 || points[0].Count != 2 || len(points[0].ExplicitBounds) != 2 || len(points[0].Exemplars) != 1 ||
		fmt.Sprintf("%x", points[0].Exemplars[0].TraceId) != span.SpanContext().TraceID().String() {
		t.Errorf("the times are %v, want two in seconds, and the one of trace %s as an example", found, span.SpanContext().TraceID())
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/rls"
	stats "github.com/weirproxy/weir/server/stats"
	"github.com/weirproxy/weir/server/stats/otlp"
	"github.com/weirproxy/weir/server/trace"
)

// telemetry sends spans and totals to an OpenTelemetry collector. Its methods do nothing for what is not sent.
type telemetry struct {
	set      *config.Settings
	resource *resource.Resource
	traces   *trace.Tracer // nil: none are sent
	hits     *otlp.Sink    // nil: none are sent
	log      *slog.Logger
}

// openTelemetry begins to trace, if that is asked for. Log lines in JSON then say of the process what spans say.
func openTelemetry(set *config.Settings, metrics *stats.Metrics, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{set: set, log: log}
	if !set.SendsTraces() && !set.SendsHits() {
		return t, nil
	}
	t.resource = set.Resource(buildVersion(), log)
	if set.LogsJSON() {
		for _, a := range t.resource.Attributes() {
			t.log = t.log.With(string(a.Key), a.Value.AsInterface())
		}
	}
	otel.SetLogger(logr.FromSlogHandler(t.log.Handler())) // the library has no other way to tell what is wrong with variables
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.log.Warn("OpenTelemetry", "error", err) }))
	if !set.SendsTraces() {
		return t, nil
	}
	var err error
	t.traces, err = trace.New(context.Background(), trace.Config{GRPC: set.TracesByGRPC(), Ratio: set.SamplingRate,
		Values: set.TracingValues, Method: rls.Method, Resource: t.resource, Exported: t.exports("traces", metrics)})
	if err != nil {
		return nil, fmt.Errorf("opening the export of traces: %w", err)
	}
	const dropped = "Spans that did not reach the collector: more waited than OTEL_BSP_MAX_QUEUE_SIZE, or it did not take them."
	metrics.Counter("weir_trace_spans_dropped_total", dropped, map[string]string{"reason": "full"},
		func() float64 { full, _ := t.traces.Dropped(); return float64(full) })
	metrics.Counter("weir_trace_spans_dropped_total", dropped, map[string]string{"reason": "failed"},
		func() float64 { _, failed := t.traces.Dropped(); return float64(failed) })
	return t, nil
}

// openHits begins to send totals of hits, if that is asked for.
func (t *telemetry) openHits(recorder *hits.Recorder, metrics *stats.Metrics) (err error) {
	if !t.set.SendsHits() {
		return nil
	}
	t.hits, err = otlp.New(context.Background(), otlp.Config{GRPC: t.set.HitsByGRPC(), Resource: t.resource, Recorder: recorder,
		Buckets: stats.RequestBuckets(), Exported: t.exports("metrics", metrics), Now: time.Now})
	if err != nil {
		return fmt.Errorf("opening the export of hits: %w", err)
	}
	return nil
}

// exports returns what counts exports of a signal, and logs when they begin to fail and when they succeed again.
func (t *telemetry) exports(signal string, metrics *stats.Metrics) func(error) {
	var done, failed atomic.Uint64
	for result, n := range map[string]*atomic.Uint64{"done": &done, "failed": &failed} {
		metrics.Counter("weir_otlp_exports_total", "Exports to the OpenTelemetry collector, by what was sent and whether it took all.",
			map[string]string{"signal": signal, "result": result}, func() float64 { return float64(n.Load()) })
	}
	var mu sync.Mutex
	failing := false
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		switch before := failing; {
		case err == nil:
			done.Add(1)
			if failing = false; before {
				t.log.Info("the OpenTelemetry collector takes exports again", "signal", signal)
			}
		default:
			failed.Add(1)
			if failing = true; !before {
				t.log.Warn("the OpenTelemetry collector does not take exports", "signal", signal, "error", err)
			}
		}
	}
}

// interceptor returns what traces calls of the gRPC port, nil for nothing.
func (t *telemetry) interceptor() grpc.UnaryServerInterceptor {
	if t.traces == nil {
		return nil
	}
	return t.traces.Intercept
}

// exchanges returns what traces exchanges with the servers of a store, nil for nothing.
func (t *telemetry) exchanges(system string) outbound.Trace {
	if t.traces == nil {
		return nil
	}
	return t.traces.Exchanges(system)
}

// span begins a span of something that weir does by itself, with so many things of a kind.
func (t *telemetry) span(name, kind string, n int) (ended func(error)) {
	if t.traces == nil {
		return func(error) {}
	}
	return t.traces.Span(name, kind, n)
}

// observe is told of each request that was answered.
func (t *telemetry) observe(a rls.Answered) {
	if t.traces != nil {
		t.traces.Answered(a.Context, a.Call, a.Result)
	}
	if t.hits != nil {
		t.hits.Took(a.Context, a.Took)
	}
}

// drain hands out hits as [hits.Recorder.Drain] does.
func (t *telemetry) drain(recorder *hits.Recorder) func(time.Time, func(history.ID, uint64)) {
	return func(now time.Time, emit func(history.ID, uint64)) {
		if t.hits != nil {
			t.hits.Drain(now, emit)
		} else {
			recorder.Drain(now, emit)
		}
	}
}

// trace returns a history store whose batches have spans.
func (t *telemetry) trace(store history.Store) history.Store {
	if t.traces == nil {
		return store
	}
	return tracedHistory{store, t}
}

type tracedHistory struct {
	history.Store
	*telemetry
}

// Apply is the store's.
func (h tracedHistory) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if len(b.Increments) == 0 { // it only asks for a position
		return h.Store.Apply(ctx, p, b)
	}
	ended := h.span("history flush", "increments", len(b.Increments))
	result, err := h.Store.Apply(ctx, p, b)
	ended(err)
	return result, err
}

// close sends what is left, for as long as the last hits may take to reach their history. The end of kill cuts it short.
func (t *telemetry) close(kill context.Context) {
	ctx, cancel := context.WithTimeout(kill, lastFlush)
	defer cancel()
	var err error
	if t.hits != nil {
		err = t.hits.Close(ctx)
	}
	if t.traces != nil {
		err = errors.Join(err, t.traces.Close(ctx))
	}
	if err != nil {
		t.log.Warn("the last spans or hits did not reach the OpenTelemetry collector", "error", err)
	}
}

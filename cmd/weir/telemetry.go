package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
	"github.com/weirproxy/weir/server/stats/otlp"
	"github.com/weirproxy/weir/server/trace"
)

// telemetry exports spans and totals to an OpenTelemetry collector. Its methods do nothing for signals that are off.
type telemetry struct {
	settings *config.Settings
	resource *resource.Resource
	traces   *trace.Tracer // nil if off
	hits     *otlp.Sink    // nil if off
	log      *slog.Logger
}

// openTelemetry opens the export of traces, if it is configured. JSON log lines then get the resource attributes of spans.
func openTelemetry(settings *config.Settings, metrics *stats.Metrics, log *slog.Logger) (*telemetry, error) {
	t := &telemetry{settings: settings, log: log}
	if !settings.SendsTraces() && !settings.SendsHits() {
		return t, nil
	}
	t.resource = settings.Resource(buildVersion(), log)
	if settings.LogsJSON() {
		for _, a := range t.resource.Attributes() {
			t.log = t.log.With(string(a.Key), a.Value.AsInterface())
		}
	}
	otel.SetLogger(logr.FromSlogHandler(t.log.Handler())) // the library reports wrong variables only there
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { t.log.Warn("OpenTelemetry", "error", err) }))
	if !settings.SendsTraces() {
		return t, nil
	}
	var err error
	t.traces, err = trace.New(context.Background(), trace.Config{GRPC: settings.TracesByGRPC(), Ratio: settings.SamplingRate,
		Values: settings.TracingValues, Method: rls.Method, Resource: t.resource, OnExport: t.exportObserver("traces", metrics)})
	if err != nil {
		return nil, fmt.Errorf("opening the export of traces: %w", err)
	}
	const dropped = "Spans that did not reach the collector, because more than OTEL_BSP_MAX_QUEUE_SIZE waited or an export failed."
	for reason, n := range t.traces.Dropped() {
		metrics.RegisterCounter("weir_trace_spans_dropped_total", dropped, map[string]string{"reason": reason},
			func() float64 { return float64(n.Load()) })
	}
	return t, nil
}

// openHits opens the export of hits, if it is configured. It returns the function by which the history drains hits.
func (t *telemetry) openHits(recorder *hits.Recorder, metrics *stats.Metrics) (drain func(time.Time, func(history.ID, uint64)), err error) {
	if !t.settings.SendsHits() {
		return recorder.Drain, nil
	}
	t.hits, err = otlp.New(context.Background(), otlp.Config{GRPC: t.settings.HitsByGRPC(), Resource: t.resource, Recorder: recorder,
		Buckets: stats.RequestBuckets(), OnExport: t.exportObserver("metrics", metrics), Now: time.Now})
	if err != nil {
		return nil, fmt.Errorf("opening the export of hits: %w", err)
	}
	return t.hits.Drain, nil
}

// exportObserver returns a function to be called with the error of each export of a signal. It counts exports, and logs
// when they begin to fail and when they succeed again.
func (t *telemetry) exportObserver(signal string, metrics *stats.Metrics) func(error) {
	var done, failed atomic.Uint64
	for result, n := range map[string]*atomic.Uint64{"done": &done, "failed": &failed} {
		metrics.RegisterCounter("weir_otlp_exports_total", "Exports to the OpenTelemetry collector, by signal and by whether it accepted all.",
			map[string]string{"signal": signal, "result": result}, func() float64 { return float64(n.Load()) })
	}
	var failing atomic.Bool
	return func(err error) {
		switch before := failing.Swap(err != nil); {
		case err != nil && !before:
			t.log.Warn("the OpenTelemetry collector does not take exports", "signal", signal, "error", err)
		case err == nil && before:
			t.log.Info("the OpenTelemetry collector takes exports again", "signal", signal)
		}
		if err != nil {
			failed.Add(1)
		} else {
			done.Add(1)
		}
	}
}

// requestTracer returns the tracer of requests, nil if traces are off.
func (t *telemetry) requestTracer() server.Tracer {
	if t.traces == nil {
		return nil
	}
	return t.traces
}

// observe is called for each answered request.
func (t *telemetry) observe(a rls.AnsweredRequest) {
	if t.traces != nil {
		t.traces.RecordVerdict(a.Context, a.Call, a.Result)
	}
	if t.hits != nil {
		t.hits.Observe(a.Context, a.Took)
	}
}

// tracedHistory is a history store that traces its batches, if there is a tracer.
type tracedHistory struct {
	history.Store
	traces *trace.Tracer
}

// Apply implements history.Store.
func (h tracedHistory) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if len(b.Increments) == 0 { // it only reads a position
		return h.Store.Apply(ctx, p, b)
	}
	ended := h.traces.StartSpan("history flush", "increments", len(b.Increments))
	result, err := h.Store.Apply(ctx, p, b)
	ended(err)
	return result, err
}

// close exports the remaining spans and hits within lastFlush. kill ends it early.
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

// Package trace exports spans to an OpenTelemetry collector: for sampled rate-limit requests, for the exchanges with
// Redis or memcached that they cause, and for weir's background work.
package trace

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/contrib/propagators/b3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	api "go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// Config configures tracing. The exporter also reads the environment variables OTEL_EXPORTER_OTLP_*.
type Config struct {
	GRPC     bool    // export by gRPC, else by HTTP with protobuf
	Ratio    float64 // share of the traces that begin here which is sampled; callers decide about their own
	Values   bool    // show values of descriptors in spans of requests
	Method   string  // the traced gRPC method, with its full name
	Resource *resource.Resource
	OnExport func(err error) // called after each export
}

// Tracer makes spans. Its methods may be called by any number of goroutines; only Close blocks on the collector.
// A nil Tracer's ExchangeTracer returns nil, and its StartSpan starts no span.
type Tracer struct {
	config      Config
	sampler     sdk.Sampler
	callOptions []api.SpanStartOption // options of spans of gRPC calls
	provider    *sdk.TracerProvider
	tracer      api.Tracer
	queue       *queue
}

// New makes a tracer. It does not connect: a missing collector is no error.
func New(ctx context.Context, c Config) (*Tracer, error) {
	client := otlptracehttp.NewClient()
	if c.GRPC {
		client = otlptracegrpc.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	t := &Tracer{config: c, queue: new(queue), sampler: sdk.ParentBased(sdk.TraceIDRatioBased(c.Ratio))}
	t.callOptions = []api.SpanStartOption{api.WithSpanKind(api.SpanKindServer),
		api.WithAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(strings.TrimPrefix(c.Method, "/")))}
	t.queue.SpanProcessor = sdk.NewBatchSpanProcessor(&countingExporter{exporter, t.queue, c.OnExport},
		func(o *sdk.BatchSpanProcessorOptions) { t.queue.size = int64(o.MaxQueueSize) }) // OTEL_BSP_MAX_QUEUE_SIZE
	t.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(t.queue), sdk.WithResource(c.Resource),
		sdk.WithSampler(t.sampler), sdk.WithIDGenerator(idGenerator{}))
	t.tracer = t.provider.Tracer("github.com/weirproxy/weir")
	return t, nil
}

// Close exports the queued spans, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Dropped returns the counters of dropped spans by reason: "full", the queue was full, or "failed", the export failed.
func (t *Tracer) Dropped() map[string]*atomic.Uint64 {
	return map[string]*atomic.Uint64{"full": &t.queue.full, "failed": &t.queue.failed}
}

// Begin starts the span of a call of Config.Method, if it is sampled, and returns the context with it. gRPC's tap calls
// it, because a tap reads headers without copying them: OpenTelemetry's stats.Handler costs each request a fifth of its
// CPU or more.
func (t *Tracer) Begin(ctx context.Context, call *tap.Info) context.Context {
	if call.FullMethodName != t.config.Method {
		return ctx
	}
	return t.begin(ctx, tapHeaders{propagation.HeaderCarrier(call.Header)}, t.config.Method[1:], t.callOptions...)
}

// begin starts the span of a request with these headers. If the request is not sampled, begin allocates nothing.
func (t *Tracer) begin(ctx context.Context, headers propagation.TextMapCarrier, name string, options ...api.SpanStartOption) context.Context {
	if unsampled(headers) {
		return ctx
	}
	parent, root := ctx, newTraceID()
	if headers.Get("traceparent") != "" || headers.Get("b3") != "" || headers.Get("x-b3-traceid") != "" {
		parent = propagator.Extract(ctx, headers)
	}
	if t.sampler.ShouldSample(sdk.SamplingParameters{ParentContext: parent, TraceID: root}).Decision == sdk.Drop {
		return ctx
	}
	ctx, _ = t.tracer.Start(context.WithValue(parent, rootTraceID{}, root), name, options...)
	return ctx
}

// End ends the span of a call, if it has one, by OpenTelemetry's conventions for RPCs.
func (t *Tracer) End(ctx context.Context, err error) {
	span := api.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	name := code.Code(status.Code(err)).String()
	span.SetAttributes(semconv.RPCResponseStatusCode(name))
	switch status.Code(err) {
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
	default:
		err = nil // other codes are the caller's errors
	}
	endSpan(span, name, err)
}

// HTTP returns a handler with spans for POST requests, by OpenTelemetry's conventions for HTTP. Its own handler would
// add 2 MB to weir.
func (t *Tracer) HTTP(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if r.Method == http.MethodPost {
			ctx = t.begin(ctx, propagation.HeaderCarrier(r.Header), "POST "+r.Pattern, api.WithSpanKind(api.SpanKindServer),
				api.WithAttributes(semconv.HTTPRequestMethodPost, semconv.HTTPRoute(r.Pattern), semconv.URLPath(r.URL.Path), semconv.URLScheme("http")))
		}
		span := api.SpanFromContext(ctx)
		if !span.IsRecording() {
			h.ServeHTTP(w, r)
			return
		}
		recorder := &statusRecorder{w, http.StatusOK}
		h.ServeHTTP(recorder, r.WithContext(ctx))
		span.SetAttributes(semconv.HTTPResponseStatusCode(recorder.status))
		var err error
		if recorder.status >= http.StatusInternalServerError { // others are the caller's errors
			err = errors.New(http.StatusText(recorder.status))
		}
		endSpan(span, strconv.Itoa(recorder.status), err)
	})
}

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// propagator reads the span context of callers. traceparent takes precedence over b3.
var propagator = propagation.NewCompositeTextMapPropagator(b3.New(), propagation.TraceContext{})

// unsampled reports whether the headers say that the caller's trace is not sampled, the usual case. Unlike
// propagator.Extract, it does not allocate.
func unsampled(headers propagation.TextMapCarrier) bool {
	parent := headers.Get("traceparent")
	if parent == "" {
		sampled := cmp.Or(headers.Get("b3"), headers.Get("x-b3-sampled"))
		return sampled == "0" || strings.HasSuffix(sampled, "-0")
	}
	if len(parent) != 55 || !strings.HasPrefix(parent, "00-") || !strings.HasSuffix(parent, "-00") {
		return false
	}
	_, traceErr := api.TraceIDFromHex(parent[3:35])
	_, spanErr := api.SpanIDFromHex(parent[36:52])
	return traceErr == nil && spanErr == nil
}

// tapHeaders is a carrier of gRPC headers, whose names are in lower case.
type tapHeaders struct{ propagation.HeaderCarrier }

// Get returns the first header of a name.
func (h tapHeaders) Get(key string) string {
	if values := h.HeaderCarrier[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// rootTraceID is the context key of the trace id that the sampler was given, for a span without a parent.
type rootTraceID struct{}

// idGenerator makes random ids, as the SDK's own does, except for a rootTraceID.
type idGenerator struct{}

// NewIDs returns the ids of a trace and of its first span.
func (g idGenerator) NewIDs(ctx context.Context) (api.TraceID, api.SpanID) {
	id, ok := ctx.Value(rootTraceID{}).(api.TraceID)
	if !ok {
		id = newTraceID()
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID returns the id of a span.
func (idGenerator) NewSpanID(context.Context, api.TraceID) (id api.SpanID) {
	binary.NativeEndian.PutUint64(id[:], 1+rand.Uint64N(math.MaxUint64)) // 0 is no id
	return id
}

func newTraceID() (id api.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], 1+rand.Uint64N(math.MaxUint64))
	return id
}

// RecordVerdict adds the verdict to the span of a request.
func (t *Tracer) RecordVerdict(ctx context.Context, c *limit.Call, r limit.Result) {
	span := api.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var paths []string
	for i := range c.Statuses {
		paths = append(paths, c.Statuses[i].Path())
	}
	span.SetAttributes(attribute.String("weir.domain", validUTF8(descriptors.Abbreviate(c.Domain))),
		attribute.String("weir.outcome", r.String()), attribute.StringSlice("weir.paths", paths),
		attribute.Bool("weir.degraded", c.Degraded))
	if t.config.Values {
		span.SetAttributes(attribute.String("weir.decisions", validUTF8(c.Trace())))
	}
}

// ExchangeTracer returns an outbound.Trace for a database system, such as "redis". It starts spans of exchanges with
// servers, by OpenTelemetry's conventions for database clients. An exchange serves many callers: its span is a child of
// the first sampled caller's, and links to the others'. If no caller is sampled, there is no span.
func (t *Tracer) ExchangeTracer(system string) func(server string, callers iter.Seq[context.Context]) func(outcome string, err error) {
	if t == nil {
		return nil
	}
	return func(server string, callers iter.Seq[context.Context]) func(string, error) {
		var parent context.Context
		var links []api.Link
		var last api.SpanID
		checks := 0
		for ctx := range callers {
			checks++
			switch caller := api.SpanContextFromContext(ctx); {
			case !caller.IsSampled() || caller.SpanID() == last:
			case parent == nil:
				parent, last = ctx, caller.SpanID()
			default:
				links, last = append(links, api.Link{SpanContext: caller}), caller.SpanID()
			}
		}
		if parent == nil {
			return nil
		}
		_, span := t.tracer.Start(parent, server, api.WithSpanKind(api.SpanKindClient), api.WithLinks(links...),
			api.WithAttributes(exchangeAttributes(system, server, checks)...))
		return func(outcome string, err error) {
			span.SetAttributes(attribute.String("weir.reply", outcome))
			endSpan(span, outcome, err)
		}
	}
}

// exchangeAttributes returns the attributes of an exchange.
func exchangeAttributes(system, server string, checks int) []attribute.KeyValue {
	all := []attribute.KeyValue{semconv.DBSystemNameKey.String(system), attribute.Int("weir.checks", checks)}
	if checks > 1 { // the conventions want no size for a single operation
		all = append(all, semconv.DBOperationBatchSize(checks))
	}
	host, port, err := net.SplitHostPort(server)
	if n, portErr := strconv.Atoi(port); err == nil && portErr == nil {
		return append(all, semconv.ServerAddress(host), semconv.ServerPort(n))
	}
	return append(all, semconv.ServerAddress(server))
}

// StartSpan starts a span of weir's background work, with the attribute weir.unit = n. Call end at its end.
func (t *Tracer) StartSpan(name, unit string, n int) (end func(err error)) {
	if t == nil {
		return func(error) {}
	}
	_, span := t.tracer.Start(context.Background(), name, api.WithAttributes(attribute.Int("weir."+unit, n)))
	return func(err error) { endSpan(span, "failed", err) }
}

// endSpan ends a span. If err is not nil, it first sets the error and its type.
func endSpan(span api.Span, errorType string, err error) {
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(errorType))
		span.SetStatus(codes.Error, validUTF8(err.Error()))
	}
	span.End()
}

// validUTF8 replaces invalid UTF-8, because of which protobuf would reject the whole batch of spans.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// queue bounds the spans that wait for export, and counts the dropped ones, which the SDK does not report.
type queue struct {
	sdk.SpanProcessor
	size         int64
	waiting      atomic.Int64
	full, failed atomic.Uint64
}

// OnEnd implements sdk.SpanProcessor.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.full.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// countingExporter counts the spans whose export fails.
type countingExporter struct {
	sdk.SpanExporter
	queue    *queue
	onExport func(error)
}

// ExportSpans implements sdk.SpanExporter. It returns no error, because the SDK would log it a second time.
func (e *countingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.queue.waiting.Add(-int64(len(spans)))
	if err != nil {
		e.queue.failed.Add(uint64(len(spans)))
	}
	e.onExport(err)
	return nil
}

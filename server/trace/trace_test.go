package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/stats/otlp/otlptest"
)

const service = "weir-test"

// start makes a tracer that exports to a receiver.
func start(t testing.TB, c Config, receiver *otlptest.Receiver, variables ...string) *Tracer {
	t.Helper()
	setenv := map[bool]string{true: receiver.GRPC, false: receiver.HTTP}[c.GRPC]
	for _, pair := range slices.Collect(slices.Chunk(append(variables, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+setenv), 2)) {
		t.Setenv(pair[0], pair[1])
	}
	c.Resource = resource.NewSchemaless(attribute.String("service.name", service))
	if c.OnExport == nil {
		c.OnExport = func(error) {}
	}
	tracer, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tracer.Close(context.Background()) })
	return tracer
}

// serve runs a gRPC server with weir's hooks for the tracer, which may be nil, and returns a client of it.
func serve(t testing.TB, tracer *Tracer) healthpb.HealthClient {
	t.Helper()
	server := grpc.NewServer(grpc.InTapHandle(func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if tracer != nil {
			ctx = tracer.Begin(ctx, call)
		}
		return ctx, nil
	}), grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		out, err := next(ctx, in)
		if tracer != nil {
			tracer.End(ctx, err)
		}
		return out, err
	}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return healthpb.NewHealthClient(conn)
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// TestCallersDecideWhatIsSampled covers the headers by which callers propagate their traces.
func TestCallersDecideWhatIsSampled(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ratio  float64 // of requests without trace headers
		pairs  []string
		parent bool // the span is of the caller's trace
		spans  int
	}{
		{"sampled by traceparent", 0, []string{"traceparent", "00-" + traceID + "-" + spanID + "-01"}, true, 1},
		{"not sampled by traceparent", 1, []string{"traceparent", "00-" + traceID + "-" + spanID + "-00"}, false, 0},
		{"sampled by b3", 0, []string{"b3", traceID + "-" + spanID + "-1"}, true, 1},
		{"sampled by b3 headers", 0, []string{"x-b3-traceid", traceID, "x-b3-spanid", spanID, "x-b3-sampled", "1"}, true, 1},
		{"not sampled by b3", 1, []string{"b3", traceID + "-" + spanID + "-0"}, false, 0},
		{"not sampled by b3 headers", 1, []string{"x-b3-traceid", traceID, "x-b3-spanid", spanID, "x-b3-sampled", "0"}, false, 0},
		{"none to be sampled by b3", 1, []string{"b3", "0"}, false, 0},
		{"not sampled by b3, whatever older headers say", 1, []string{"b3", traceID + "-" + spanID + "-0", "x-b3-sampled", "1"}, false, 0},
		{"sampled by b3, whatever older headers say", 0, []string{"b3", traceID + "-" + spanID + "-1", "x-b3-sampled", "0"}, true, 1},
		{"not sampled by a later traceparent", 1, []string{"traceparent", "00-" + traceID + "-" + spanID + "-02"}, false, 0},
		{"traceparent before b3", 0, []string{"traceparent", "00-" + traceID + "-" + spanID + "-01", "b3", traceID + "-" + spanID + "-0"}, true, 1},
		{"no trace, all sampled", 1, nil, false, 1},
		{"no trace, none sampled", 0, nil, false, 0},
		{"a broken traceparent", 1, []string{"traceparent", "00-zz"}, false, 1},
		{"a traceparent without a trace", 1, []string{"traceparent", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-00"}, false, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			receiver := otlptest.Start(t)
			tracer := start(t, Config{Method: healthpb.Health_Check_FullMethodName, Ratio: tc.ratio}, receiver)
			c := serve(t, tracer)
			if _, err := c.Check(metadata.AppendToOutgoingContext(t.Context(), tc.pairs...), new(healthpb.HealthCheckRequest)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.List(t.Context(), new(healthpb.HealthListRequest)); err != nil { // another method
				t.Fatal(err)
			}
			if err := tracer.provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := receiver.Spans(service)
			if len(spans) != tc.spans {
				t.Fatalf("%d spans came, want %d: %v", len(spans), tc.spans, spans)
			}
			for _, s := range spans {
				if tc.parent && (fmt.Sprintf("%x", s.TraceId) != traceID || fmt.Sprintf("%x", s.ParentSpanId) != spanID) {
					t.Errorf("the span is of trace %x under %x, want that of the caller", s.TraceId, s.ParentSpanId)
				}
				if s.Name != "grpc.health.v1.Health/Check" || s.Kind != otlp.Span_SPAN_KIND_SERVER {
					t.Errorf("the span is %q, of kind %v; want the method, and a server's", s.Name, s.Kind)
				}
			}
		})
	}
}

// Only errors of weir, not those of callers, set the span's status to error.
func TestOnlyServersErrorsAreErrors(t *testing.T) {
	receiver := otlptest.Start(t)
	tracer := start(t, Config{Method: "/s/m", Ratio: 1}, receiver)
	for _, of := range []codes.Code{codes.OK, codes.InvalidArgument, codes.Unavailable} {
		tracer.End(tracer.Begin(t.Context(), &tap.Info{FullMethodName: "/s/m"}), status.Error(of, "for a reason"))
	}
	if err := tracer.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range receiver.Spans(service) {
		got = append(got, fmt.Sprint(otlptest.Attribute(s.Attributes, "rpc.response.status_code"), " ", s.Status.GetCode(), " ", otlptest.Attribute(s.Attributes, "error.type")))
	}
	if want := []string{"OK STATUS_CODE_UNSET ", "INVALID_ARGUMENT STATUS_CODE_UNSET ", "UNAVAILABLE STATUS_CODE_ERROR UNAVAILABLE"}; !slices.Equal(got, want) {
		t.Errorf("the spans say %q, want %q", got, want)
	}
}

// unsampledHeaders are headers of callers whose requests get no span at a sampling ratio close to 0.
var unsampledHeaders = map[string]metadata.MD{
	"no trace":                   {":authority": {"weir"}, "content-type": {"application/grpc"}},
	"not sampled by traceparent": {"traceparent": {"00-" + traceID + "-" + spanID + "-00"}, "tracestate": {"a=b"}},
	"not sampled by b3":          {"b3": {traceID + "-" + spanID + "-0"}},
	"not sampled by b3 headers":  {"x-b3-traceid": {traceID}, "x-b3-spanid": {spanID}, "x-b3-sampled": {"0"}},
}

func TestUnsampledRequestsAllocateNothing(t *testing.T) {
	tracer := start(t, Config{Method: "/s/m", Ratio: 1e-12}, otlptest.Start(t))
	for name, headers := range unsampledHeaders {
		call := &tap.Info{FullMethodName: "/s/m", Header: headers}
		if n := testing.AllocsPerRun(1000, func() { tracer.End(tracer.Begin(t.Context(), call), nil) }); n != 0 {
			t.Errorf("%s: %v allocations for a request without a span, want 0", name, n)
		}
	}
}

// Requests without trace headers are sampled by the ratio. OpenTelemetry's sampler must decide the same for each trace id.
// The bounds are eight standard deviations.
func TestSampledShareFollowsTheRatio(t *testing.T) {
	const requests, ratio, want, most = 10_000, 0.1, 1000, 240
	receiver := otlptest.Start(t)
	tracer := start(t, Config{Method: "/s/m", Ratio: ratio}, receiver, "OTEL_BSP_MAX_QUEUE_SIZE", fmt.Sprint(requests))
	sampler, traces := sdk.TraceIDRatioBased(ratio), make(map[api.TraceID]bool)
	for range requests {
		ctx := tracer.Begin(t.Context(), &tap.Info{FullMethodName: "/s/m"})
		if span := api.SpanContextFromContext(ctx); span.IsSampled() {
			traces[span.TraceID()] = true
			if sampler.ShouldSample(sdk.SamplingParameters{ParentContext: t.Context(), TraceID: span.TraceID()}).Decision != sdk.RecordAndSample {
				t.Errorf("%v is sampled, which another sampler of this ratio would drop", span.TraceID())
			}
		}
		tracer.End(ctx, nil)
	}
	if err := tracer.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(traces); n < want-most || n > want+most {
		t.Errorf("%d of %d requests are sampled, want about %d", n, requests, want)
	}
	if n := len(receiver.Spans(service)); n != len(traces) {
		t.Errorf("%d spans came, want one for each of %d traces", n, len(traces))
	}
}

// TestHttpRequestsHaveSpans covers requests by HTTP, which are sampled like those by gRPC.
func TestHttpRequestsHaveSpans(t *testing.T) {
	sampled := "00-" + traceID + "-" + spanID + "-01"
	for name, tc := range map[string]struct {
		method, traceparent string
		ratio               float64
		status              int    // of the answer; 0 sets none
		want                string // the span's parent, status code, and class of error
	}{
		"sampled":          {"POST", sampled, 0, 429, spanID + " 429 STATUS_CODE_UNSET "},
		"sampled, failing": {"POST", sampled, 0, 503, spanID + " 503 STATUS_CODE_ERROR 503"},
		"not sampled":      {"POST", "00-" + traceID + "-" + spanID + "-00", 1, 0, ""},
		"no trace":         {"POST", "", 1, 0, " 200 STATUS_CODE_UNSET "},
		"not a question":   {"GET", sampled, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := otlptest.Start(t)
			tracer := start(t, Config{Ratio: tc.ratio}, receiver)
			mux := http.NewServeMux()
			mux.Handle("/json", tracer.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if recording := api.SpanFromContext(r.Context()).IsRecording(); recording != (tc.want != "") {
					t.Errorf("that the request is traced is %v", recording)
				}
				if tc.status != 0 {
					w.WriteHeader(tc.status)
				}
				_, _ = w.Write([]byte("answered"))
			})))
			r, w := httptest.NewRequest(tc.method, "/json", nil), httptest.NewRecorder()
			r.Header.Set("Traceparent", tc.traceparent)
			mux.ServeHTTP(w, r)
			if w.Code != cmp.Or(tc.status, http.StatusOK) || w.Body.String() != "answered" {
				t.Errorf("the client gets %d %s, want what the handler answered", w.Code, w.Body)
			}
			if err := tracer.provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range receiver.Spans(service) {
				if s.Name != "POST /json" || s.Kind != otlp.Span_SPAN_KIND_SERVER {
					t.Errorf("the span is %q, of kind %v; want POST /json, and a server's", s.Name, s.Kind)
				}
				for _, a := range s.Attributes {
					if a.Key == "http.response.status_code" {
						got = append(got, fmt.Sprintf("%x %d %v %s", s.ParentSpanId, a.Value.GetIntValue(), s.Status.GetCode(), otlptest.Attribute(s.Attributes, "error.type")))
					}
				}
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("the spans are %q, want %q", got, tc.want)
			}
		})
	}
}

// caller returns the context of a request with a span of its own.
func (t *Tracer) caller(name string) (context.Context, api.Span) {
	return t.tracer.Start(context.Background(), name)
}

func TestAnExchangeLinksToItsRequests(t *testing.T) {
	receiver := otlptest.Start(t)
	tracer := start(t, Config{GRPC: true, Ratio: 1}, receiver)
	ann, annSpan := tracer.caller("ann")
	bob, bobSpan := tracer.caller("bob")
	begin := tracer.ExchangeTracer("redis")
	// Two checks of one request, one of another, and one that is not sampled.
	begin("10.0.0.7:6379", slices.Values([]context.Context{context.Background(), ann, ann, bob}))("lost", errors.New("i/o timeout \xff"))
	begin("/run/redis.sock", slices.Values([]context.Context{bob}))("answered", nil)
	if end := begin("10.0.0.7:6379", slices.Values([]context.Context{context.Background(), context.Background()})); end != nil {
		t.Error("an exchange of requests that nobody traces has a span, want none")
	}
	if err := tracer.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := receiver.Spans(service)
	if len(spans) != 2 {
		t.Fatalf("%d spans came, want 2: %v", len(spans), spans)
	}
	mixed, single := spans[0], spans[1]
	id := func(s api.Span) string { return s.SpanContext().SpanID().String() }
	if fmt.Sprintf("%x", mixed.ParentSpanId) != id(annSpan) || len(mixed.Links) != 1 || fmt.Sprintf("%x", mixed.Links[0].SpanId) != id(bobSpan) {
		t.Errorf("the exchange is under %x and links to %v; want it under %s, with a link to %s", mixed.ParentSpanId, mixed.Links, id(annSpan), id(bobSpan))
	}
	got := make(map[string]string)
	for _, a := range mixed.Attributes {
		got[a.Key] = fmt.Sprint(a.Value.GetStringValue(), a.Value.GetIntValue())
	}
	for key, want := range map[string]string{"db.system.name": "redis0", "db.operation.batch.size": "4", "weir.checks": "4",
		"server.address": "10.0.0.70", "server.port": "6379", "weir.reply": "lost0", "error.type": "lost0"} {
		if got[key] != want {
			t.Errorf("%s of the exchange is %q, want %q", key, got[key], want)
		}
	}
	if mixed.Name != "10.0.0.7:6379" || mixed.Status.Message != "i/o timeout \uFFFD" || mixed.Kind != otlp.Span_SPAN_KIND_CLIENT {
		t.Errorf("the exchange is %v, want a client's of the server, with the error", mixed)
	}
	if len(single.Links) != 0 || fmt.Sprintf("%x", single.ParentSpanId) != id(bobSpan) || otlptest.Attribute(single.Attributes, "server.address") != "/run/redis.sock" {
		t.Errorf("the exchange of one request is %v; want it under that alone", single)
	}
}

// decided returns a call that the limiter has decided.
func decided(t *testing.T) *limit.Call {
	t.Helper()
	l := limit.New(fixture.Memory(t, time.Now), limit.Options{}, hits.New(0))
	l.Apply(fixture.Config(t, "domain: shop\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 1, unit: day}}]"))
	c := new(limit.Call)
	c.Domain = "shop"
	d := c.AddDescriptor()
	d.Entries = append(d.Entries, descriptors.Entry{Key: "user", Value: "ann"})
	if err := l.Decide(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValuesAreShownOnlyWhereAsked(t *testing.T) {
	for _, values := range []bool{false, true} {
		receiver := otlptest.Start(t)
		tracer := start(t, Config{Ratio: 1, Values: values}, receiver)
		ctx, span := tracer.caller("request")
		tracer.RecordVerdict(ctx, decided(t), limit.OK)
		span.End()
		if err := tracer.provider.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
		shown := fmt.Sprint(receiver.Spans(service))
		if strings.Contains(shown, "ann") != values {
			t.Errorf("with values %v the span is %s", values, shown)
		}
		attributes := receiver.Spans(service)[0].Attributes
		if otlptest.Attribute(attributes, "weir.domain") != "shop" || otlptest.Attribute(attributes, "weir.outcome") != limit.OK.String() {
			t.Errorf("the span has %v, want the domain and the outcome", attributes)
		}
	}
}

// If the collector does not answer, spans beyond the queue are dropped and counted, and no call is delayed.
func TestACollectorThatHangsCostsSpansAlone(t *testing.T) {
	const size, more = 64, 100
	receiver := otlptest.Start(t)
	receiver.Hold()
	failures := make(chan error, 100)
	tracer := start(t, Config{GRPC: true, Ratio: 1, OnExport: func(err error) { failures <- err }}, receiver,
		"OTEL_BSP_MAX_QUEUE_SIZE", fmt.Sprint(size), "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", fmt.Sprint(size/4))
	for range size + more {
		_, span := tracer.caller("request")
		span.End()
	}
	dropped := tracer.Dropped()
	if full := dropped["full"].Load(); full != more {
		t.Errorf("%d spans were dropped, want %d: all but those that the queue holds", full, more)
	}
	receiver.Answer()
	if err := tracer.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(receiver.Spans(service)); got != size {
		t.Errorf("%d spans came in the end, want %d", got, size)
	}
	receiver.Refuse()
	_, span := tracer.caller("request")
	span.End()
	if err := tracer.provider.ForceFlush(t.Context()); err != nil {
		t.Errorf("the library was told of %v, and logs it beside weir", err)
	}
	if full, failed := dropped["full"].Load(), dropped["failed"].Load(); full != more || failed != 1 {
		t.Errorf("%d and %d spans were dropped, want %d for the queue and 1 that was refused", full, failed, more)
	}
	var last error
	for range len(failures) {
		last = <-failures
	}
	if last == nil || !strings.Contains(last.Error(), "refused by the test") {
		t.Errorf("the last export ended with %v, want the refusal", last)
	}
}

// BenchmarkCall measures a call over gRPC by how it is traced; "off" has no tracer.
func BenchmarkCall(b *testing.B) {
	receiver := otlptest.Start(b)
	tracer := start(b, Config{GRPC: true, Method: healthpb.Health_Check_FullMethodName, Ratio: 0.01}, receiver)
	parent := "00-" + traceID + "-" + spanID
	b.Run("no trace", func(b *testing.B) { call(b, tracer) })
	b.Run("not sampled", func(b *testing.B) { call(b, tracer, "traceparent", parent+"-00") })
	b.Run("sampled", func(b *testing.B) { call(b, tracer, "traceparent", parent+"-01") })
	b.Run("off", func(b *testing.B) { call(b, nil) })
}

func call(b *testing.B, tracer *Tracer, headers ...string) {
	c := serve(b, tracer)
	ctx := metadata.AppendToOutgoingContext(b.Context(), headers...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Check(ctx, new(healthpb.HealthCheckRequest)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnsampled measures the cost that tracing adds to a request without a span.
func BenchmarkUnsampled(b *testing.B) {
	tracer := start(b, Config{Method: "/s/m", Ratio: 1e-12}, otlptest.Start(b))
	for name, headers := range unsampledHeaders {
		b.Run(name, func(b *testing.B) {
			call := &tap.Info{FullMethodName: "/s/m", Header: headers}
			b.ReportAllocs()
			for b.Loop() {
				tracer.End(tracer.Begin(b.Context(), call), nil)
			}
		})
	}
}

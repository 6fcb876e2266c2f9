// Package otlptest is an OpenTelemetry collector for tests, which keeps all exports.
package otlptest

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	metricsservice "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceservice "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	_ "google.golang.org/grpc/encoding/gzip" // takes requests that are compressed so
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Receiver takes spans and metrics by gRPC and by HTTP.
type Receiver struct {
	traceservice.UnimplementedTraceServiceServer
	GRPC, HTTP string // host:port

	mu      sync.Mutex
	spans   map[string][]*trace.Span      // by service.name
	about   map[string][]*common.KeyValue // by service.name, the attributes of the resource
	metrics []*metrics.ResourceMetrics
	headers http.Header
	hold    chan struct{} // exports wait until it is closed, unless it is nil
	refuse  bool
}

// metricsServer is the receiver as a MetricsServiceServer.
type metricsServer struct {
	metricsservice.UnimplementedMetricsServiceServer
	*Receiver
}

// Start starts a receiver.
func Start(t testing.TB) *Receiver {
	t.Helper()
	return StartTLS(t, nil)
}

// StartTLS starts a receiver that speaks TLS unless secure is nil.
func StartTLS(t testing.TB, secure *tls.Config) *Receiver {
	t.Helper()
	r := &Receiver{spans: make(map[string][]*trace.Span), about: make(map[string][]*common.KeyValue)}
	var listeners [2]net.Listener
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	var options []grpc.ServerOption
	if secure != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secure)))
		listeners[1] = tls.NewListener(listeners[1], secure)
	}
	g := grpc.NewServer(options...)
	traceservice.RegisterTraceServiceServer(g, r)
	metricsservice.RegisterMetricsServiceServer(g, metricsServer{Receiver: r})
	h := &http.Server{Handler: http.HandlerFunc(r.serveHTTP)}
	r.GRPC, r.HTTP = listeners[0].Addr().String(), listeners[1].Addr().String()
	go func() { _ = g.Serve(listeners[0]) }()
	go func() { _ = h.Serve(listeners[1]) }()
	t.Cleanup(func() {
		r.Answer()
		g.Stop()
		_ = h.Close()
	})
	return r
}

// Hold makes exports wait until Answer.
func (r *Receiver) Hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = make(chan struct{})
}

// Refuse refuses exports until Answer, with an error that exporters do not retry.
func (r *Receiver) Refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = true
}

// Answer accepts exports again.
func (r *Receiver) Answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		close(r.hold)
	}
	r.hold, r.refuse = nil, false
}

// admit waits while exports are held, and returns an error while they are refused.
func (r *Receiver) admit(ctx context.Context) error {
	r.mu.Lock()
	hold, refuse := r.hold, r.refuse
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if refuse {
		return status.Error(codes.InvalidArgument, "refused by the test")
	}
	return nil
}

// Export stores spans.
func (r *Receiver) Export(ctx context.Context, q *traceservice.ExportTraceServiceRequest) (*traceservice.ExportTraceServiceResponse, error) {
	if err := r.admit(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range q.ResourceSpans {
		name := Attribute(of.Resource.Attributes, "service.name")
		r.about[name] = of.Resource.Attributes
		for _, scope := range of.ScopeSpans {
			r.spans[name] = append(r.spans[name], scope.Spans...)
		}
	}
	return new(traceservice.ExportTraceServiceResponse), nil
}

// Export stores metrics.
func (m metricsServer) Export(ctx context.Context, q *metricsservice.ExportMetricsServiceRequest) (*metricsservice.ExportMetricsServiceResponse, error) {
	if err := m.admit(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.metrics = append(m.metrics, q.ResourceMetrics...)
	return new(metricsservice.ExportMetricsServiceResponse), nil
}

func (r *Receiver) serveHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.headers = q.Header.Clone()
	r.mu.Unlock()
	answer, err := r.take(q)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, _ := proto.Marshal(answer)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

func (r *Receiver) take(q *http.Request) (proto.Message, error) {
	var from io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if from, err = gzip.NewReader(q.Body); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(from)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(q.URL.Path, "/v1/traces") {
		spans := new(traceservice.ExportTraceServiceRequest)
		if err := proto.Unmarshal(body, spans); err != nil {
			return nil, err
		}
		return r.Export(q.Context(), spans)
	}
	totals := new(metricsservice.ExportMetricsServiceRequest)
	if err := proto.Unmarshal(body, totals); err != nil {
		return nil, err
	}
	return metricsServer{Receiver: r}.Export(q.Context(), totals)
}

// Header returns a header of the last export by HTTP.
func (r *Receiver) Header(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.headers.Get(name)
}

// Spans returns the spans of a service.
func (r *Receiver) Spans(service string) []*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans[service])
}

// About returns the resource attributes of a service that has sent spans.
func (r *Receiver) About(service string) []*common.KeyValue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.about[service]
}

// Last returns the newest metric of a name, nil if there is none, with its resource attributes.
func (r *Receiver) Last(name string) (found *metrics.Metric, of []*common.KeyValue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.metrics {
		for _, scope := range one.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name == name {
					found, of = m, one.Resource.Attributes
				}
			}
		}
	}
	return found, of
}

// Points returns the values of a sum by the values of their attributes, joined by spaces.
func Points(m *metrics.Metric) map[string]int64 {
	all := make(map[string]int64)
	for _, p := range m.GetSum().GetDataPoints() {
		var name []string
		for _, a := range p.Attributes {
			name = append(name, a.Value.GetStringValue())
		}
		all[strings.Join(name, " ")] = p.GetAsInt()
	}
	return all
}

// Attribute returns an attribute as text, "" if it is missing.
func Attribute(all []*common.KeyValue, key string) string {
	for _, a := range all {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

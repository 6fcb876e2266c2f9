package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats/otlp/otlptest"
)

// sending are the settings of a weir that sends everything to a collector by gRPC, soon.
func sending(collector string) []string {
	return []string{"TRACING_ENABLED=true", "OTEL_METRICS_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector, "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_METRIC_EXPORT_INTERVAL=200", "DRAIN_DELAY=0s"}
}

// under returns the spans of a service whose parent is another one.
func under(spans []*otlp.Span, parent *otlp.Span) (found []*otlp.Span) {
	for _, s := range spans {
		if bytes.Equal(s.TraceId, parent.TraceId) && bytes.Equal(s.ParentSpanId, parent.SpanId) {
			found = append(found, s)
		}
	}
	return found
}

// A request through Envoy is one trace: Envoy's spans, weir's, and that of the exchange with Redis. That weir itself begins
// no traces (a rate of 0) changes nothing. What the collector is told of the process is in the log as well.
func TestEnvoyWeirAndRedisShareOneTrace(t *testing.T) {
	t.Parallel()
	collector, redis := otlptest.Start(t), redistest.Single(t)
	w := weirtest.Serve(t, largePlan, append(sending(collector.GRPC), "REDIS_URL="+redis.Addr, weirtest.PatientRedis, "LOG_FORMAT=json",
		"TRACING_SAMPLING_RATE=0", "TRACING_SERVICE_INSTANCE_ID=weir-0", "OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=weir-abc,k8s.namespace.name=edge")...)
	awaitCounts(t, w.Client(t), "large")
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	port := func(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }
	e := weirtest.EnvoyOf(t, "envoy.yaml.tmpl", map[string]any{"WeirPort": port(w.GRPC), "CollectorPort": port(collector.GRPC),
		"UpstreamPort": upstream.Listener.Addr().(*net.TCPAddr).Port}, 1)
	if head, _ := raw(t, e.Addrs["ingress"], "large", ""); !strings.HasPrefix(head, "HTTP/1.1 200") {
		t.Fatalf("Envoy answers\n%s", head)
	}
	weirtest.Eventually(t, "the spans of Envoy, weir and Redis are one trace", func() error {
		spans := collector.Spans("weir")
		for _, asks := range collector.Spans("envoy") {
			for _, request := range under(spans, asks) {
				exchanges := under(spans, request)
				if request.Name == rls.Method[1:] && len(exchanges) == 1 && exchanges[0].Name == redis.Addr &&
					otlptest.Attribute(request.Attributes, "weir.outcome") == "ok" &&
					otlptest.Attribute(exchanges[0].Attributes, "weir.reply") == "answered" {
					return nil
				}
			}
		}
		return fmt.Errorf("they are %v and %v", collector.Spans("envoy"), spans)
	})
	for _, s := range collector.Spans("weir") {
		if strings.Contains(s.String(), "ann") {
			t.Errorf("the span %v has the value of a descriptor, which nobody asked for", s)
		}
	}
	weirtest.Eventually(t, "totals arrive, and times with the traces of their requests", func() error {
		found, _ := collector.Last("weir.hits")
		times, _ := collector.Last("weir.request")
		for _, p := range times.GetHistogram().GetDataPoints() {
			for _, example := range p.Exemplars {
				for _, s := range collector.Spans("weir") {
					if found != nil && bytes.Equal(example.SpanId, s.SpanId) && bytes.Equal(example.TraceId, s.TraceId) {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("the totals are %v, the times %v", found, times)
	})
	_, ofTotals := collector.Last("weir.hits")
	about := collector.About("weir")
	w.Drain(t)
	for _, line := range slices.Collect(strings.Lines(w.Log.String())) {
		said := make(map[string]any)
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for key, want := range map[string]string{"service.name": "weir", "service.instance.id": "weir-0", "k8s.pod.name": "weir-abc", "k8s.namespace.name": "edge"} {
			if said["msg"] == "draining" && said[key] != want || otlptest.Attribute(about, key) != want || otlptest.Attribute(ofTotals, key) != want {
				t.Errorf("%s is %q for spans, %q for totals, and the log has %s; want %q in all", key,
					otlptest.Attribute(about, key), otlptest.Attribute(ofTotals, key), line, want)
			}
		}
	}
}

// A request by HTTP is in the trace of its caller, with the exchange that it needed.
func TestJsonRequestsJoinTheirCallersTrace(t *testing.T) {
	t.Parallel()
	caller := &otlp.Span{TraceId: bytes.Repeat([]byte{7}, 16), SpanId: bytes.Repeat([]byte{9}, 8)}
	collector, redis := otlptest.Start(t), redistest.Single(t)
	w := weirtest.Serve(t, largePlan, append(sending(collector.GRPC), "REDIS_URL="+redis.Addr, weirtest.PatientRedis, "TRACING_SAMPLING_RATE=0")...)
	awaitCounts(t, w.Client(t), "large")
	body := `{"domain": "shop", "descriptors": [{"entries": [{"key": "plan", "value": "large"}, {"key": "user", "value": "bob"}]}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.HTTP+"/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Traceparent": {fmt.Sprintf("00-%x-%x-01", caller.TraceId, caller.SpanId)}}
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("weir answers %v (%v), want 200", answer, err)
	}
	answer.Body.Close()
	weirtest.Eventually(t, "the spans of weir and Redis are in the caller's trace", func() error {
		spans := collector.Spans("weir")
		for _, request := range under(spans, caller) {
			if exchanges := under(spans, request); request.Name == "POST /json" && otlptest.Attribute(request.Attributes, "weir.outcome") == "ok" &&
				len(exchanges) == 1 && exchanges[0].Name == redis.Addr {
				return nil
			}
		}
		return fmt.Errorf("they are %v", spans)
	})
}

// askMany makes so many calls by several workers, of which none may fail.
func askMany(t *testing.T, w *weirtest.Weir, calls int64) {
	t.Helper()
	const workers = 16
	var made atomic.Int64
	var clients []*weirtest.Client
	for range workers {
		clients = append(clients, w.Client(t))
	}
	failed := make(chan error, workers)
	for i := range workers {
		go func() {
			for made.Add(1) <= calls {
				if _, err := clients[i].Hit("large", "ann"); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range workers {
		if err := <-failed; err != nil {
			t.Errorf("a call failed: %v; want none, whatever becomes of its trace", err)
		}
	}
}

// totals returns what a collector knows of hits within their limit.
func totals(r *otlptest.Receiver) int64 {
	found, _ := r.Last("weir.hits")
	return otlptest.Points(found)["shop within plan=large/user"]
}

// Ten thousand requests, all sampled: each is answered, counted once, and has a span.
func TestFullSamplingLosesNothing(t *testing.T) {
	t.Parallel()
	const calls = 10_000
	collector, redis := otlptest.Start(t), redistest.Single(t)
	w := weirtest.Serve(t, largePlan, append(sending(collector.GRPC), "REDIS_URL="+redis.Addr, weirtest.PatientRedis,
		"OTEL_BSP_MAX_QUEUE_SIZE=100000", "LEASES=false")...)
	c := w.Client(t)
	awaitCounts(t, c, "large")
	askMany(t, w, calls)
	if n, err := w.Counted("large", "ann"); err != nil || n != calls {
		t.Errorf("%d hits are counted (%v), want %d", n, err, calls)
	}
	metrics, err := w.Scrape()
	if err != nil || metrics.Sum("weir_trace_spans_dropped_total", "") != 0 {
		t.Errorf("%v spans were dropped (%v), want none of so few", metrics.Sum("weir_trace_spans_dropped_total", ""), err)
	}
	answered := int64(metrics[`weir_requests_total{outcome="ok"}`])
	w.Drain(t)
	var requests, checks int64
	for _, s := range collector.Spans("weir") {
		switch s.Name {
		case rls.Method[1:]:
			requests++
		case redis.Addr:
			for _, a := range s.Attributes {
				if a.Key == "weir.checks" {
					checks += a.Value.GetIntValue()
				}
			}
		}
	}
	if requests != answered || checks != answered || answered < calls {
		t.Errorf("%d requests have spans, and exchanges of %d checks; want %d of both", requests, checks, answered)
	}
	if got := totals(collector); got != calls {
		t.Errorf("the collector knows of %d hits, want %d", got, calls)
	}
}

// A collector that is away, takes nothing or refuses everything costs no call, and once it is back it has all hits.
func TestABadCollectorCostsNoCall(t *testing.T) {
	t.Parallel()
	const calls = 3000
	for name, prepare := range map[string]func(*otlptest.Receiver){"slow": (*otlptest.Receiver).Hold, "refuses": (*otlptest.Receiver).Refuse, "away": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			collector, addr := otlptest.Start(t), process.Addr(t)
			if prepare != nil {
				prepare(collector)
				addr = collector.GRPC
			}
			w := weirtest.Serve(t, largePlan, append(sending(addr), "HISTORY=false", "OTEL_BSP_MAX_QUEUE_SIZE=512", "OTEL_EXPORTER_OTLP_TIMEOUT=1000")...)
			askMany(t, w, calls)
			if n, err := w.Counted("large", "ann"); err != nil || n != calls {
				t.Errorf("%d hits are counted (%v), want %d", n, err, calls)
			}
			w.Eventually(t, "an operator sees that spans are dropped, and exports fail", func() error {
				metrics, err := w.Scrape()
				if metrics.Sum("weir_trace_spans_dropped_total", "") == 0 || metrics.Sum("weir_otlp_exports_total", `result="failed"`) == 0 {
					err = errors.Join(err, errors.New("/metrics tells of none"))
				}
				return err
			})
			w.Says(t, "the OpenTelemetry collector does not take exports")
			if prepare == nil {
				w.Drain(t) // which gives up in time
				return
			}
			collector.Answer()
			w.Eventually(t, "the collector has all hits", func() error {
				if got := totals(collector); got != calls {
					return fmt.Errorf("it knows of %d, want %d", got, calls)
				}
				return nil
			})
			w.Drain(t)
		})
	}
}

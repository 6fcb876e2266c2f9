package server

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rlqs"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

const shop = "{domain: shop, descriptors: [{key: user, message: slow down, rate_limit: {requests_per_unit: 2, unit: hour, name: few}}]}"

// setup has the settings of a test's server that differ from weir's defaults.
type setup struct {
	Config
	health  *Health         // nil is weir's own
	store   backend.Counter // nil is one in memory
	limits  limit.Options
	answers rls.Options
	trace   Tracer
	grpc    net.Listener // nil is a port of its own; the server has no other ports then
}

// running is a running server on free ports, and a connection to it.
type running struct {
	*Server
	limiter  *limit.Limiter
	quotas   *rlqs.Service
	recorder *hits.Recorder
	health   *Health
	conn     *grpc.ClientConn
	stop     context.CancelFunc // as the first signal does
	kill     context.CancelFunc // as the second does
	ended    chan error
	panics   atomic.Int64
}

// start runs a server until the test ends.
func start(t testing.TB, s setup) *running {
	t.Helper()
	s.HTTPAddress, s.AdminAddress = "127.0.0.1:0", "127.0.0.1:0"
	s.GRPCAddress = cmp.Or(s.GRPCAddress, "127.0.0.1:0")
	s.limits.Algorithm = cmp.Or(s.limits.Algorithm, descriptors.SlidingWindow)
	if s.health == nil {
		s.health = NewHealth(HealthRules{})
	}
	if s.store == nil {
		s.store = fixture.Memory(t, time.Now)
	}
	metrics := stats.New("test")
	r := &running{recorder: hits.New(0), health: s.health, ended: make(chan error, 1)}
	r.limiter = limit.New(s.store, s.limits, r.recorder)
	r.quotas = rlqs.New(r.limiter, rlqs.Options{MaxStreams: 1, MaxBuckets: 1, MaxStreamBuckets: 1, Replicas: func() int { return 1 },
		Log: slog.New(slog.DiscardHandler)})
	var err error
	r.Server, err = Listen(s.Config, Parts{Service: rls.New(r.limiter, s.answers, func(a rls.AnsweredRequest) { metrics.Observe(a.Result, a.Took) }),
		Quotas: r.quotas, Health: r.health,
		Admin: admin.Parts{Metrics: metrics.Handler(), Rules: r.limiter, Access: &admin.Access{}}, OnPanic: func() { r.panics.Add(1) }, Trace: s.trace, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	target := r.listener.Addr().String()
	if s.grpc != nil {
		for i, line := range []net.Listener{s.grpc, newListener(), newListener()} {
			r.Listeners()[i].Listener.Close()
			r.Listeners()[i].Listener = line
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	killed, kill := context.WithCancel(context.Background())
	r.stop, r.kill = stop, kill
	go func() { r.ended <- r.Run(ctx, killed) }()
	if strings.HasPrefix(s.GRPCAddress, "unix:") {
		target = s.GRPCAddress
	}
	r.conn, err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		kill()
		r.conn.Close()
	})
	return r
}

func (r *running) configure(t testing.TB) {
	t.Helper()
	r.apply(t, shop, yaml.Options{})
}

func (r *running) apply(t testing.TB, text string, o yaml.Options) {
	t.Helper()
	config := fixture.ConfigWith(t, o, text)
	r.limiter.Apply(config)
	r.health.Configured(config.DomainCount())
}

func (r *running) client() ratelimit.RateLimitServiceClient {
	return ratelimit.NewRateLimitServiceClient(r.conn)
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	r := start(t, setup{})
	r.configure(t)
	for _, bytes := range []int{rls.MaxRequest, 4 << 20, rls.MaxMessage - 100} {
		got, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user="+strings.Repeat("x", bytes)))
		if err != nil || got.OverallCode != ratelimit.RateLimitResponse_OVER_LIMIT {
			t.Errorf("a request with a value of %d bytes: %v, %v; want OVER_LIMIT: Envoy lets an error pass", bytes, got.GetOverallCode(), err)
		}
	}
	malformed := &common.RateLimitDescriptor_Entry{Key: "shop", Value: "\a"} // its fields are a domain and a descriptor
	err := r.conn.Invoke(t.Context(), "/"+rls.ServiceName+"/ShouldRateLimit", malformed, new(ratelimit.RateLimitResponse))
	if status.Code(err) != codes.Internal || r.panics.Load() > 0 {
		t.Errorf("bytes that are no message: %v, %d panics; want INTERNAL, as from any gRPC server", err, r.panics.Load())
	}
	err = r.conn.Invoke(t.Context(), "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", ask(t, "user=ann"),
		new(ratelimit.RateLimitResponse))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("version 2: %v; want UNIMPLEMENTED", err)
	}
}

const good, bad = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING

// wantHealth fails the test unless gRPC health has these states under "" and under the service's name, and /healthcheck
// and /readyz answer with these codes.
func (r *running) wantHealth(t *testing.T, when string, nameless, named healthpb.HealthCheckResponse_ServingStatus, healthcheck, ready int) {
	t.Helper()
	for name, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{"": nameless, "ratelimit": named, rls.ServiceName: named} {
		got, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil || got.Status != want {
			t.Errorf("%s: health of %q is %v, %v; want %v", when, name, got.GetStatus(), err, want)
		}
	}
	code, body := get(t, r.http, "/healthcheck")
	if code != healthcheck || code == 200 && body != "OK" {
		t.Errorf("%s: /healthcheck gives %d %q, want %d", when, code, body, healthcheck)
	}
	if code, _ := get(t, r.admin, "/readyz"); code != ready {
		t.Errorf("%s: /readyz, which is weir's own, gives %d, want %d", when, code, ready)
	}
	if code, _ := get(t, r.admin, "/livez"); code != 200 {
		t.Errorf("%s: /livez gives %d: the process would be restarted for nothing", when, code)
	}
}

// watchHealth watches health until the test ends. It returns after the first message.
func (r *running) watchHealth(t *testing.T) healthpb.Health_WatchClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*process.Hang) // longer than anybody waits for the end
	t.Cleanup(cancel)
	watch, err := healthpb.NewHealthClient(r.conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	return watch
}

func TestHealthFollowsConfigurationAndDrain(t *testing.T) {
	r := start(t, setup{Config: Config{DrainDelay: time.Hour, DrainTimeout: time.Hour}}) // it drains until it is killed
	r.wantHealth(t, "unconfigured", bad, bad, 200, 503)
	r.configure(t)
	r.wantHealth(t, "configured", good, good, 200, 200)
	r.health.SetStoreAway(true)
	r.wantHealth(t, "without its counters", bad, bad, 500, 503)
	r.health.SetStoreAway(false)
	r.wantHealth(t, "with them again", good, good, 200, 200)
	watch := r.watchHealth(t)
	r.stop()
	if got, err := watch.Recv(); err != nil || got.Status != bad {
		t.Errorf("a watcher hears %v, %v; want NOT_SERVING at once", got.GetStatus(), err)
	}
	r.health.SetStoreAway(true)
	r.health.SetStoreAway(false)
	r.wantHealth(t, "draining", bad, bad, 500, 503)
}

// Started as envoyproxy/ratelimit, a process is healthy from its store's first answer on, and /healthcheck restarts it.
func TestRatelimitHealthWaitsForTheStore(t *testing.T) {
	h := NewHealth(HealthRules{ByStore: true})
	r := start(t, setup{Config: Config{DrainDelay: time.Hour, DrainTimeout: time.Hour}, health: h})
	r.wantHealth(t, "at first", good, bad, 500, 503)
	r.configure(t)
	r.wantHealth(t, "configured, with a store that has not answered", good, bad, 500, 200)
	h.StoreAnswered()
	r.wantHealth(t, "once the store has answered", good, good, 200, 200)
	h.SetStoreAway(true)
	r.wantHealth(t, "without its counters, where that is asked for", good, bad, 500, 503)
	h.SetStoreAway(false)
	r.stop()
	r.awaitDrain(t)
	r.wantHealth(t, "draining", good, bad, 500, 503)
}

func TestHealthCanRequireADomain(t *testing.T) {
	for _, asRatelimit := range []bool{false, true} {
		h := NewHealth(HealthRules{NeedsDomains: true, ByStore: asRatelimit})
		h.StoreAnswered()
		for i, domains := range []int{-1, 0, 1, 0, 2} {
			if domains >= 0 {
				h.Configured(domains)
			}
			got, _ := h.grpc.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
			is, want := [3]bool{h.Alive() == nil, h.Ready() == nil, got.GetStatus() == good}, domains > 0
			if is != [3]bool{want, want, want} {
				t.Errorf("step %d, %d domains: /healthcheck, /readyz and gRPC health are good %t; want %t of each", i, domains, is, want)
			}
		}
	}
	h := NewHealth(HealthRules{ByStore: true})
	h.StoreAnswered()
	if err := h.Alive(); err != nil {
		t.Errorf("where none is needed it is unhealthy without a configuration: %v; envoyproxy/ratelimit is healthy, and answers OK", err)
	}
}

func get(t *testing.T, of *Port, path string) (int, string) {
	t.Helper()
	return read(t)(http.Get("http://" + of.Address() + path))
}

// read returns a function that returns the code and the body of a response.
func read(t *testing.T) func(*http.Response, error) (int, string) {
	return func(resp *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}

func TestJSONAnswersWithTheVerdict(t *testing.T) {
	r := start(t, setup{})
	post := func(body string) (int, string) {
		t.Helper()
		return read(t)(http.Post("http://"+r.http.Address()+"/json", "application/json", strings.NewReader(body)))
	}
	const ann = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`
	if code, body := post(ann); code != 503 || !strings.Contains(body, "no rate limit configuration") {
		t.Errorf("unconfigured: %d %q; want 503 with the reason", code, body)
	}
	r.configure(t)
	for i, want := range []int{200, 200, 429} {
		if code, body := post(ann); code != want || !strings.Contains(body, `"requestsPerUnit"`) {
			t.Errorf("request %d: %d %q; want %d with the limit", i+1, code, body, want)
		}
	}
	for what, tc := range map[string]struct {
		body string
		code int
	}{
		"no domain":     {`{"descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`, 400},
		"no JSON":       {`nonsense`, 400},
		"unknown field": {`{"domian":"shop"}`, 400},
		"too long":      {`{"domain":"` + strings.Repeat("x", rls.MaxRequest) + `"}`, 413},
	} {
		if code, body := post(tc.body); code != tc.code || len(body) < 10 {
			t.Errorf("%s: %d %q; want %d with a reason", what, code, body, tc.code)
		}
	}
}

func TestReflectionKnowsTheService(t *testing.T) {
	r := start(t, setup{})
	stream, err := reflectionpb.NewServerReflectionClient(r.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: rls.ServiceName}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection answers %v, %v; want the service's file, so that grpcurl works", got, err)
	}
}

func TestTakenPortIsAnError(t *testing.T) {
	r := start(t, setup{})
	_, err := Listen(Config{GRPCAddress: "127.0.0.1:0", HTTPAddress: r.http.Address(), AdminAddress: "127.0.0.1:0"}, Parts{})
	if err == nil || !strings.Contains(err.Error(), "HTTP port") || !strings.HasSuffix(err.Error(), " (HOST and PORT say where)") {
		t.Errorf("got %v; want an error that names the port and its variables", err)
	}
}

// panickingStore is a store that panics for one key.
type panickingStore struct{ backend.Counter }

func (p panickingStore) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if bytes.HasSuffix(checks[0].Key, []byte("defect")) {
		panic("a defect")
	}
	return p.Counter.Decide(ctx, checks, out)
}

// endRecorder is a Tracer that sends the code of each ended call that it saw begin.
type endRecorder chan codes.Code

type begun struct{}

func (endRecorder) Begin(ctx context.Context, call *tap.Info) context.Context {
	return context.WithValue(ctx, begun{}, call.FullMethodName)
}

func (e endRecorder) End(ctx context.Context, err error) {
	if ctx.Value(begun{}) == rls.Method {
		e <- status.Code(err)
	}
}

func (endRecorder) HTTP(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Traced", r.URL.Path)
		h.ServeHTTP(w, r)
	})
}

func TestJsonRequestsAreTraced(t *testing.T) {
	r := start(t, setup{trace: make(endRecorder)})
	for path, want := range map[string]string{"/json": "/json", "/healthcheck": ""} {
		answer, err := http.Get("http://" + r.http.Address() + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Get("Traced"); got != want {
			t.Errorf("a request to %s is traced as %q, want %q", path, got, want)
		}
	}
}

func TestPanicFailsOneCall(t *testing.T) {
	ended := make(endRecorder, 2)
	r := start(t, setup{store: panickingStore{fixture.Memory(t, time.Now)}, trace: ended})
	r.configure(t)
	if _, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user=defect")); status.Code(err) != codes.Internal || r.panics.Load() != 1 {
		t.Errorf("got %v, %d panics counted; want INTERNAL for this call and a count of 1", err, r.panics.Load())
	}
	if _, err := r.client().ShouldRateLimit(t.Context(), ask(t, "user=ann")); err != nil {
		t.Errorf("the call after a panic: %v; want an answer", err)
	}
	if len(ended) != 2 {
		t.Fatalf("the tracer hears of the end of %d calls, want 2", len(ended))
	}
	if first, second := <-ended, <-ended; first != codes.Internal || second != codes.OK {
		t.Errorf("the tracer hears of %v and %v, want INTERNAL and OK", first, second)
	}
}

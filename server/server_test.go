package server

import (
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

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

const shop = "{domain: shop, descriptors: [{key: user, message: slow down, rate_limit: {requests_per_unit: 2, unit: hour, name: few}}]}"

// running is a server on ports of its own, and a connection to it.
type running struct {
	*Server
	limiter  *limit.Limiter
	recorder *hits.Recorder
	health   *Health
	conn     *grpc.ClientConn
	stop     context.CancelFunc // as the first signal does
	kill     context.CancelFunc // as the second does
	ended    chan error
	panics   atomic.Int64
}

func start(t testing.TB, c Config) *running {
	t.Helper()
	return startWith(t, c, limit.Options{Algorithm: descriptors.SlidingWindow}, rls.Options{})
}

// startWith is start by these options, which start leaves at what weir does unasked.
func startWith(t testing.TB, c Config, limits limit.Options, answers rls.Options) *running {
	t.Helper()
	return startOn(t, c, openStore(t, time.Now), limits, answers)
}

// openStore makes a store that goes by this clock.
func openStore(t testing.TB, now func() time.Time) *memory.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{MaxKeys: 1000, Now: now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// startOn is startWith on a store of the caller's.
func startOn(t testing.TB, c Config, store backend.Counter, limits limit.Options, answers rls.Options) *running {
	t.Helper()
	return startOf(t, c, NewHealth(HealthRules{}), store, limits, answers)
}

// startOf is startOn of a health of the caller's.
func startOf(t testing.TB, c Config, h *Health, store backend.Counter, limits limit.Options, answers rls.Options) *running {
	t.Helper()
	c.HTTPAddress, c.DebugAddress = "127.0.0.1:0", "127.0.0.1:0"
	if c.GRPCAddress == "" {
		c.GRPCAddress = "127.0.0.1:0"
	}
	metrics := stats.New("test")
	r := &running{recorder: hits.New(0), health: h, ended: make(chan error, 1)}
	r.limiter = limit.New(store, limits, r.recorder)
	var err error
	r.Server, err = Listen(c, Parts{Service: rls.New(r.limiter, answers, metrics), Health: r.health, Metrics: metrics.Handler(), Rules: r.limiter,
		Panicked: func() { r.panics.Add(1) }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	killed, kill := context.WithCancel(context.Background())
	r.stop, r.kill = stop, kill
	go func() { r.ended <- r.Run(ctx, killed) }()
	target := r.grpcLis.Addr().String()
	if strings.HasPrefix(c.GRPCAddress, "unix:") {
		target = c.GRPCAddress
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
	config, problems := yaml.Parse([]yaml.File{{Name: "shop.yaml", Data: []byte(shop)}}, yaml.Options{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	r.limiter.Apply(config)
	r.health.Configured(config.Domains())
}

func request(domain, value string) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: value}}},
	}}
}

func TestGRPCAnswers(t *testing.T) {
	r := start(t, Config{})
	client := ratelimit.NewRateLimitServiceClient(r.conn)
	if _, err := client.ShouldRateLimit(t.Context(), request("shop", "ann")); status.Code(err) != codes.Unavailable {
		t.Errorf("before the first configuration: %v; want UNAVAILABLE, so that Envoy's failure mode decides", err)
	}
	r.configure(t)
	for i, want := range []ratelimit.RateLimitResponse_Code{1, 1, 2} {
		got, err := client.ShouldRateLimit(t.Context(), request("shop", "ann"))
		if err != nil {
			t.Fatal(err)
		}
		s := got.Statuses[0]
		if got.OverallCode != want || s.Code != want || s.CurrentLimit.GetName() != "few" || s.DurationUntilReset.GetSeconds() < 3599 {
			t.Errorf("request %d: %v; want %v of 2 an hour", i+1, got, want)
		}
		if over := want == ratelimit.RateLimitResponse_OVER_LIMIT; over != (string(got.RawBody) == "slow down") {
			t.Errorf("request %d: body %q; want the rule's message on a denial only", i+1, got.RawBody)
		}
	}
	for text, bad := range map[string]*ratelimit.RateLimitRequest{
		"rate limit domain must not be empty":          request("", "ann"),
		"rate limit descriptor list must not be empty": {Domain: "shop"},
	} {
		_, err := client.ShouldRateLimit(t.Context(), bad)
		if s := status.Convert(err); s.Code() != codes.InvalidArgument || s.Message() != text {
			t.Errorf("got %v, want INVALID_ARGUMENT with %q", err, text)
		}
	}
	_, err := client.ShouldRateLimit(t.Context(), request("shop", strings.Repeat("x", rls.MaxRequest)))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a request of over 1 MiB: %v; want RESOURCE_EXHAUSTED", err)
	}
}

func TestHealthFollowsConfigurationAndDrain(t *testing.T) {
	r := start(t, Config{DrainDelay: time.Hour, DrainTimeout: time.Hour}) // it drains until it is killed
	health := healthpb.NewHealthClient(r.conn)
	check := func(when string, want healthpb.HealthCheckResponse_ServingStatus, ready, healthcheck int) {
		t.Helper()
		for _, name := range []string{"", "ratelimit", rls.ServiceName} {
			got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || got.Status != want {
				t.Errorf("%s: health of %q is %v, %v; want %v", when, name, got.GetStatus(), err, want)
			}
		}
		if code, _ := get(t, r.debug, "/readyz"); code != ready {
			t.Errorf("%s: /readyz gives %d, want %d", when, code, ready)
		}
		if code, _ := get(t, r.debug, "/livez"); code != 200 {
			t.Errorf("%s: /livez gives %d: the process would be restarted for nothing", when, code)
		}
		if code, _ := get(t, r.httpLis, "/healthcheck"); code != healthcheck {
			t.Errorf("%s: /healthcheck gives %d, want %d", when, code, healthcheck)
		}
	}
	check("unconfigured", healthpb.HealthCheckResponse_NOT_SERVING, 503, 200)
	r.configure(t)
	check("configured", healthpb.HealthCheckResponse_SERVING, 200, 200)
	r.health.Counting(false)
	check("without its counters", healthpb.HealthCheckResponse_NOT_SERVING, 503, 500)
	r.health.Counting(true)
	check("with them again", healthpb.HealthCheckResponse_SERVING, 200, 200)
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	r.stop()
	if got, err := watch.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("a watcher hears %v, %v; want NOT_SERVING at once", got.GetStatus(), err)
	}
	r.health.Counting(false)
	r.health.Counting(true)
	check("draining", healthpb.HealthCheckResponse_NOT_SERVING, 503, 500)
}

// In place of envoyproxy/ratelimit a process is healthy from its store's first answer, and restarted by /healthcheck.
func TestHealthAsRatelimitBeginsWithTheStoresFirstAnswer(t *testing.T) {
	const good, bad = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	h := NewHealth(HealthRules{AsRatelimit: true})
	r := startOf(t, Config{DrainDelay: time.Hour, DrainTimeout: time.Hour}, h, openStore(t, time.Now), limit.Options{}, rls.Options{})
	check := func(when string, named healthpb.HealthCheckResponse_ServingStatus, healthcheck, ready int) {
		t.Helper()
		for name, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{"": good, "ratelimit": named, rls.ServiceName: named} {
			got, err := healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || got.Status != want {
				t.Errorf("%s: health of %q is %v, %v; want %v", when, name, got.GetStatus(), err, want)
			}
		}
		code, body := get(t, r.httpLis, "/healthcheck")
		if code != healthcheck || code == 200 && body != "OK" {
			t.Errorf("%s: /healthcheck gives %d %q, want %d", when, code, body, healthcheck)
		}
		if code, _ := get(t, r.debug, "/readyz"); code != ready {
			t.Errorf("%s: /readyz, which is weir's own, gives %d, want %d", when, code, ready)
		}
		if code, _ := get(t, r.debug, "/livez"); code != 200 {
			t.Errorf("%s: /livez gives %d: the process would be restarted for nothing", when, code)
		}
	}
	check("at first", bad, 500, 503)
	r.configure(t)
	check("configured, with a store that has not answered", bad, 500, 200)
	h.Answered()
	check("once the store has answered", good, 200, 200)
	h.Counting(false)
	check("without its counters, where that is asked for", bad, 500, 503)
	h.Counting(true)
	check("with them again", good, 200, 200)
	r.stop()
	for begin := time.Now(); h.Ready() == nil; time.Sleep(time.Millisecond) {
		if time.Since(begin) > hang {
			t.Fatalf("not within %v: the server drains", hang)
		}
	}
	check("draining", bad, 500, 503)
}

func TestHealthNeedsNoConfigurationAsRatelimit(t *testing.T) {
	h := NewHealth(HealthRules{AsRatelimit: true})
	h.Answered()
	if err := h.Sound(); err != nil {
		t.Errorf("without a configuration it is unhealthy: %v; envoyproxy/ratelimit is healthy, and answers OK", err)
	}
}

func TestHealthMayNeedADomain(t *testing.T) {
	for _, asRatelimit := range []bool{false, true} {
		h := NewHealth(HealthRules{NeedsDomains: true, AsRatelimit: asRatelimit})
		h.Answered()
		for i, domains := range []int{-1, 0, 1, 0, 2} {
			if domains >= 0 {
				h.Configured(domains)
			}
			sound, ready := h.Sound() == nil, h.Ready() == nil
			got, err := h.grpc.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
			serving := err == nil && got.Status == healthpb.HealthCheckResponse_SERVING
			if want := domains > 0; sound != want || ready != want || serving != want {
				t.Errorf("step %d, %d domains: /healthcheck %t, /readyz %t, gRPC health %t; want %t of each", i, domains, sound, ready, serving, want)
			}
		}
	}
}

func get(t *testing.T, lis net.Listener, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + lis.Addr().String() + path)
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

func TestJSON(t *testing.T) {
	r := start(t, Config{})
	post := func(body string) (int, string) {
		t.Helper()
		resp, err := http.Post("http://"+r.httpLis.Addr().String()+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
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
	r := start(t, Config{})
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

func TestMetricsCountRequests(t *testing.T) {
	r := start(t, Config{})
	r.configure(t)
	client := ratelimit.NewRateLimitServiceClient(r.conn)
	for range 3 {
		if _, err := client.ShouldRateLimit(t.Context(), request("shop", "ann")); err != nil {
			t.Fatal(err)
		}
	}
	_, text := get(t, r.debug, "/metrics")
	for _, line := range []string{`weir_requests_total{outcome="ok"} 2`, `weir_requests_total{outcome="over_limit"} 1`, "weir_request_seconds_count 3", "go_goroutines"} {
		if !strings.Contains(text, line) {
			t.Errorf("/metrics lacks %q", line)
		}
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	r := start(t, Config{})
	_, err := Listen(Config{GRPCAddress: "127.0.0.1:0", HTTPAddress: r.httpLis.Addr().String(), DebugAddress: "127.0.0.1:0"}, Parts{})
	if err == nil || !strings.Contains(err.Error(), "HTTP port") {
		t.Errorf("got %v; want an error that names the port", err)
	}
}

func TestAPanicCostsOneCall(t *testing.T) {
	var count int
	rec := recovery{slog.New(slog.DiscardHandler), func() { count++ }}
	_, err := rec.unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/m"}, func(context.Context, any) (any, error) {
		panic("a defect")
	})
	if status.Code(err) != codes.Internal || count != 1 {
		t.Errorf("got %v, %d panics counted; want INTERNAL for this call and a count of 1", err, count)
	}
}

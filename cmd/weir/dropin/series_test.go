package dropin_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// ownLimit gives a descriptor a limit of its own, of so many requests an hour.
func ownLimit(d *descriptorpb.RateLimitDescriptor, requests uint32) *descriptorpb.RateLimitDescriptor {
	d.Limit = &descriptorpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: typepb.RateLimitUnit_HOUR}
	return d
}

// What dashboards and probes of people ask for: calls by their method, of which /json is none, the descriptors of limits
// that requests bring, and a debug port that answers on any path.
func TestSwappedImageKeepsSeriesAndProbes(t *testing.T) {
	t.Parallel()
	weirtest.AwaitRoomInHour()
	prometheus := process.Addr(t)
	w := weirtest.Ratelimit(t, weirtest.Rule("basic", "unit: hour, requests_per_unit: 3"), "REDIS_URL="+redistest.Single(t).Addr,
		weirtest.PatientRedis, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+prometheus, "EXTRA_TAGS=team:a")
	c := w.Client(t)
	for range 2 {
		answer, err := c.Ask("shop", ownLimit(weirtest.Describe("plan", "basic", "user", "ann.b"), 1), ownLimit(weirtest.Describe("ip", "10.0.0.1"), 1))
		if err != nil || len(answer.Statuses) != 2 {
			t.Fatal(answer, err)
		}
	}
	for range 3 {
		if _, err := healthpb.NewHealthClient(c.ClientConn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := http.Post(w.HTTP+"/json", "", strings.NewReader(`{"domain": "shop", "descriptors": [{"entries": [{"key": "plan", "value": "basic"}, {"key": "user", "value": "bob"}]}]}`))
	if err != nil || answer.Body.Close() != nil || answer.StatusCode != 200 {
		t.Fatalf("/json answers %v (%v)", answer, err)
	}
	text, err := weirtest.Get(w.Admin + "/stats")
	const rules = "ratelimit.service.rate_limit.shop."
	for _, want := range []string{
		rules + "plan_basic.user_ann.b.total_hits: 2", rules + "plan_basic.user_ann.b.over_limit: 1", rules + "ip_10_0_0_1.over_limit: 1",
		rules + "plan_basic.user.total_hits: 1", // of /json
		"ratelimit_server.Check.total_requests: 3", "ratelimit_server.ShouldRateLimit.total_requests: 2",
	} {
		if !strings.Contains("\n"+text, "\n"+want+"\n") {
			err = errors.Join(err, fmt.Errorf("no line %s", want))
		}
	}
	if err != nil {
		t.Errorf("/stats prints\n%s%v", text, err)
	}
	series, err := weirtest.Scrape("http://" + prometheus + "/metrics")
	for name, want := range map[string]float64{
		`ratelimit_service_response_time_seconds_count{grpc_method="Check",team="a"}`:        3,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit",team="a"}`:           2,
		`ratelimit_service_rate_limit_over_limit{domain="shop",key1="ip_10_0_0_1",team="a"}`: 1,
	} {
		if series[name] != want {
			t.Errorf("%s is %v (%v), want %v of\n%v", name, series[name], err, want, series)
		}
	}
	for _, path := range []string{"/healthcheck", "/nothing"} {
		if text, err := weirtest.Get(w.Admin + path); err != nil || !strings.Contains(text, "/rlconfig ") {
			t.Errorf("the debug port answers %s with %q (%v), want the list of what it serves", path, text, err)
		}
	}
}

// Where weir does otherwise, MIGRATION.md says so: it gives back what a refused request took, and of no other; and a
// larger limit that a request brings counts at once, whatever the local cache knows of a smaller one.
func TestDifferencesMatchTheMigrationDocument(t *testing.T) {
	t.Parallel()
	weirtest.AwaitRoomInHour()
	rules := weirtest.Rule("basic", "unit: hour, requests_per_unit: 9") + weirtest.Rule("tiny", "unit: hour, requests_per_unit: 1")
	for _, mode := range []string{"shadow_mode", "quota_mode"} {
		rules += "- { key: " + mode + ", " + mode + ": true, rate_limit: { unit: hour, requests_per_unit: 1 } }\n"
	}
	w := weirtest.Ratelimit(t, rules, "REDIS_URL="+redistest.Single(t).Addr, weirtest.PatientRedis,
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true", "LOCAL_CACHE_SIZE_IN_BYTES=1000000")
	c := w.Client(t)
	for _, mode := range []string{"shadow_mode", "quota_mode"} {
		for i := range uint32(3) { // the second is over the limit of what refuses nothing
			quotaPasses := weirtest.Describe("quota_mode", fmt.Sprint(mode, i))
			answer, err := c.Ask("shop", weirtest.Describe("plan", "basic", "user", mode), weirtest.Describe(mode, "x"), quotaPasses)
			if err != nil || answer.OverallCode != rlspb.RateLimitResponse_OK || answer.Statuses[0].LimitRemaining != 8-i {
				t.Errorf("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT beside %s: request %d gets %v (%v), want OK with %d left", mode, i+1, answer, err, 8-i)
			}
		}
	}
	tiny := weirtest.Describe("plan", "tiny", "user", "ann")
	for i, want := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT, rlspb.RateLimitResponse_OVER_LIMIT,
		rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OK} {
		if i == 3 {
			tiny = ownLimit(tiny, 9)
		}
		answer, err := c.Ask("shop", tiny)
		if err != nil || answer.OverallCode != want {
			t.Errorf("request %d gets %v (%v), want %v: a limit of 1, then of 9 that the request brings", i+1, answer, err, want)
		}
	}
}

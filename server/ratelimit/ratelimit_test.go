package ratelimit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit"
)

func text(t *testing.T, s *ratelimit.Statistics) string {
	t.Helper()
	var b strings.Builder
	if err := s.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestStatisticsNamesMatchRatelimit(t *testing.T) {
	w := newWorld(t, true)
	w.metrics.ConfigRejected()
	w.calls[ratelimit.Check] = 1
	w.ask(t, 0, "user=ann", "dark=1", "nothing=1")
	w.ask(t, 19, "dark=1")
	w.ask(t, 2, "dark=1")
	w.decide(t, limit.Request{Domain: "default/eg/http"})
	w.decide(t, limit.Request{Domain: "nowhere", Descriptors: read(t, "a=1", "b=1")})
	w.metrics.Observe(limit.Unavailable, time.Second)
	w.metrics.Observe(limit.Unconfigured, time.Second)
	w.metrics.Observe(limit.Shadowed, time.Second)
	const want = `ratelimit.localcache.entryCount: 7
ratelimit.service.call.should_rate_limit.redis_error: 1
ratelimit.service.call.should_rate_limit.service_error: 2
ratelimit.service.config_load_error: 1
ratelimit.service.config_load_success: 1
ratelimit.service.global_shadow_mode: 1
ratelimit.service.rate_limit.__unknown__.domain_not_found: 2
ratelimit.service.rate_limit.default/eg/http.dark.near_limit: 4
ratelimit.service.rate_limit.default/eg/http.dark.over_limit: 2
ratelimit.service.rate_limit.default/eg/http.dark.shadow_mode: 2
ratelimit.service.rate_limit.default/eg/http.dark.total_hits: 22
ratelimit.service.rate_limit.default/eg/http.dark.within_limit: 20
ratelimit.service.rate_limit.default/eg/http.user.total_hits: 1
ratelimit.service.rate_limit.default/eg/http.user.within_limit: 1
ratelimit_server.Check.total_requests: 1
ratelimit_server.ShouldRateLimit.total_requests: 5
`
	if got := text(t, w.statistics); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUncountedRatelimitStatisticsAreLeftOut(t *testing.T) {
	w := newWorld(t, false)
	w.ask(t, 1, "user=ann")
	w.decide(t, limit.Request{Domain: "nowhere", Descriptors: read(t, "a=1")})
	const want = "ratelimit.localcache.entryCount: 7\nratelimit.service.config_load_success: 1\nratelimit_server.ShouldRateLimit.total_requests: 2\n"
	if got := text(t, w.statistics); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

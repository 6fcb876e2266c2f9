package e2e_test

import (
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// enforced are the rules of one weir behind one Envoy, each with users of its own.
var enforced = weirtest.Rule("basic", "unit: hour, requests_per_unit: 3") +
	weirtest.Rule("trial", "unit: hour, requests_per_unit: 2") + "    shadow_mode: true\n" +
	weirtest.Rule("one", "unit: hour, requests_per_unit: 1") +
	weirtest.Rule("a/b", "unit: hour, requests_per_unit: 2, name: hourly")

// What recipes have, such as usage that is charged when a stream ends, goes through an Envoy in cmd/weir/cookbook.
func TestARequestThroughEnvoy(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, enforced, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_REMAINING_HEADER=X-Left",
		"RETRY_AFTER_HEADER_ENABLED=true", "LIMIT_REQUEST_HEADERS_ENABLED=true", "LIMIT_REQUEST_REMAINING_HEADER=X-Quota-Left")
	e := startEnvoy(t, w)
	for promise, test := range map[string]func(*testing.T, *envoy){
		"is counted, let through in shadow mode, or given back": testVerdicts,
		"has the headers that weir is asked for":                testHeaders,
	} {
		t.Run(promise, func(t *testing.T) { test(t, e) })
	}
}

func testVerdicts(t *testing.T, e *envoy) {
	for i, step := range []struct {
		path, plan, left string
		status           int
	}{
		{"/", "basic", "2", 200}, {"/", "basic", "1", 200}, {"/", "basic", "0", 200}, {"/", "basic", "0", 429},
		{"/refund", "basic", "2", 200}, // of two hits
		{"/", "basic", "1", 200}, {"/", "basic", "0", 200}, {"/", "basic", "0", 429},
		{"/", "trial", "1", 200}, {"/", "trial", "0", 200}, {"/", "trial", "0", 200}, // in shadow mode
	} {
		status, h := e.get(t, step.path, step.plan, "ann")
		limit := map[string]string{"basic": "3, 3;w=3600", "trial": "2, 2;w=3600"}[step.plan]
		if status != step.status || h.Get("x-ratelimit-limit") != limit || h.Get("x-ratelimit-remaining") != step.left {
			t.Errorf("request %d, %s of plan %s: Envoy answers %d with %v; want %d, and %s left of %s", i+1, step.path, step.plan,
				status, h, step.status, step.left, limit)
		}
		wantAboutAnHour(t, "x-ratelimit-reset", h.Get("x-ratelimit-reset"))
	}
}

func testHeaders(t *testing.T, e *envoy) {
	for _, want := range []struct {
		status int
		retry  bool
		told   string // what the service behind Envoy has heard is left
	}{{200, false, "0"}, {429, true, ""}} {
		status, h := e.get(t, "/", "one", "ann")
		if status != want.status || h.Get("RateLimit-Limit") != "1" || h.Get("X-Left") != "0" || h.Get("RateLimit-Remaining") != "" {
			t.Errorf("Envoy answered %d with %v; want %d, and the headers under their names", status, h, want.status)
		}
		if got := h.Get("X-Told"); got != want.told {
			t.Errorf("%d: the service behind Envoy was told that %q is left, want %q", want.status, got, want.told)
		}
		wantAboutAnHour(t, "RateLimit-Reset", h.Get("RateLimit-Reset"))
		if want.retry {
			wantAboutAnHour(t, "Retry-After", h.Get("Retry-After"))
		} else if h.Get("Retry-After") != "" {
			t.Errorf("Retry-After is %q; want it on a refusal only", h.Get("Retry-After"))
		}
	}
}

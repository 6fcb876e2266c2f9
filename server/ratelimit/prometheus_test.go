package ratelimit_test

import (
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit"
)

func newPrometheus(t testing.TB, w *world, mapping string, labels map[string]string) *ratelimit.Prometheus {
	t.Helper()
	m, err := ratelimit.NewPrometheus(ratelimit.PrometheusConfig{Mapping: mapping, Labels: labels, Statistics: w.statistics, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns the series of a scrape, sorted, without those of Go and the process. The value of a histogram or summary
// is the number of its observations.
func scrape(t testing.TB, m *ratelimit.Prometheus) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	var own, others []string
	for line := range strings.Lines(answer.Body.String()) {
		name := line[:strings.IndexAny(line, "{ ")]
		switch {
		case name == "#", strings.HasSuffix(name, "_bucket"), strings.HasSuffix(name, "_sum"), strings.Contains(line, "quantile="):
		case strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"):
			others = append(others, name)
		default:
			own = append(own, strings.TrimSpace(line))
		}
	}
	if answer.Code != 200 || !slices.Contains(others, "go_goroutines") || !slices.Contains(others, "process_open_fds") {
		t.Fatalf("a scrape answers %d, and lacks what Go or the process tells", answer.Code)
	}
	slices.Sort(own)
	return own
}

// expect fails the test unless a scrape has exactly these series.
func expect(t testing.TB, why string, m *ratelimit.Prometheus, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := scrape(t, m); !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", why, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Dashboards and alerts need the names and labels of a running envoyproxy/ratelimit, from which these were taken.
func TestPrometheusNamesAndLabelsMatchRatelimit(t *testing.T) {
	w := newWorld(t, true)
	m := newPrometheus(t, w, ratelimit.DefaultMapping(false), nil)
	expect(t, "a series appears with its first hit", m, "ratelimit_localcache_entryCount 7", "ratelimit_service_config_load_success 1")
	for range 3 {
		w.ask(t, 7, "user=ann", "route=r1,masked_remote_address=0.0.0.0/0")
	}
	w.ask(t, 1, "route=r1,method=GET,path=/a", "route=r1,method=GET,path=/b", "tenant=b.c")
	w.ask(t, 21, "dark=1")
	w.decide(t, limit.Request{Domain: "nowhere", Descriptors: read(t, "a=1")})
	m.Observe(ratelimit.ShouldRateLimit, 3*time.Millisecond)
	m.Observe(ratelimit.Check, time.Millisecond)
	w.calls[ratelimit.Check] = 2
	const address = `{domain="default/eg/http",key1="route_r1",key2="masked_remote_address_0_0_0_0/0"} `
	const method = `{domain="default/eg/http",key1="route_r1",key2="method_GET"} ` // its paths are added up
	const user, dark = `{domain="default/eg/http",key1="user"} `, `{domain="default/eg/http",key1="dark"} `
	const dotted = `{domain="default/eg/http",key1="tenant_b",key2="c"} `
	const rule = "ratelimit_service_rate_limit_"
	expect(t, "after some requests", m,
		rule+"total_hits"+address+"21", rule+"within_limit"+address+"14", rule+"near_limit"+address+"4", rule+"over_limit"+address+"1",
		rule+"total_hits"+user+"21", rule+"within_limit"+user+"14", rule+"near_limit"+user+"4", rule+"over_limit"+user+"1",
		rule+"total_hits"+method+"2", rule+"within_limit"+method+"2",
		rule+"total_hits"+dotted+"1", rule+"within_limit"+dotted+"1",
		rule+"total_hits"+dark+"21", rule+"near_limit"+dark+"4", rule+"over_limit"+dark+"1", rule+"shadow_mode"+dark+"1",
		`ratelimit_service_rate_limit___unknown___domain_not_found 1`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 6`,
		`ratelimit_service_total_requests{grpc_method="Check"} 2`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 1`,
		`ratelimit_service_response_time_seconds_count{grpc_method="Check"} 1`,
		`ratelimit_service_config_load_success 1`,
		`ratelimit_localcache_entryCount 7`)
}

// gatewayMapping is a mapping as Envoy Gateway mounts it: it has timer_type, which the mapper has since renamed, and drops
// all other statistics.
const gatewayMapping = `
mappings:
- {match: "ratelimit.service.rate_limit.*.*.total_hits", name: hits, timer_type: histogram, labels: {domain: "$1", key1: "$2"}}
- {match: "ratelimit.service.rate_limit.*.*.*.total_hits", name: hits, timer_type: histogram, labels: {domain: "$1", key1: "$2", key2: "$3"}}
- {match: "ratelimit_server.*.response_time", name: took, timer_type: histogram, labels: {grpc_method: "$1"}}
- {match: ".", match_type: regex, action: drop, name: dropped}
`

func TestCustomMappingIsObeyed(t *testing.T) {
	for name, tc := range map[string]struct {
		mapping string
		labels  map[string]string
		want    []string
	}{
		"Envoy Gateway's": {gatewayMapping, map[string]string{"team": "a", "domain": "b", "no-dash": "c", "le": "\xff"}, []string{
			`hits{domain="default/eg/http",key1="user",no_dash="c",tag_le="_",team="a"} 1`,
			`hits{domain="default/eg/http",key1="route_r1",key2="masked_remote_address_0_0_0_0/0",no_dash="c",tag_le="_",team="a"} 2`,
			`took_count{domain="b",grpc_method="ShouldRateLimit",no_dash="c",tag_le="_",team="a"} 1`,
		}},
		"scaled, for counters only, and with tags that win": {`
mappings:
- {match: "ratelimit.service.rate_limit.*.user.total_hits", name: hits, scale: 2.5, honor_labels: true, labels: {domain: "$1"}}
- {match: "ratelimit.localcache.*", match_metric_type: counter, name: never}
- {match: "ratelimit.service.rate_limit.*", match_type: regex, action: drop, name: x}
- {match: 'config_load_(\w+)', match_type: regex, name: "loads_$1"}
- {match: "ratelimit_server.*.*", match_metric_type: counter, action: drop, name: x}
`, map[string]string{"domain": "mine"}, []string{
			`hits{domain="mine"} 2.5`, `ratelimit_localcache_entryCount{domain="mine"} 7`,
			`ratelimit_server_ShouldRateLimit_response_time_count{domain="mine"} 1`, `loads_success{domain="mine"} 1`,
		}},
		"with one name for two kinds": {`
mappings:
- {match: ".*", match_type: regex, name: all}
`, nil, []string{"all_count 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			m := newPrometheus(t, w, tc.mapping, tc.labels)
			w.ask(t, 1, "user=ann")
			w.ask(t, 2, "route=r1,masked_remote_address=0.0.0.0/0")
			m.Observe(ratelimit.ShouldRateLimit, time.Millisecond)
			expect(t, name, m, tc.want...)
		})
	}
}

func TestWrongMappingIsRefused(t *testing.T) {
	w := newWorld(t, true)
	for mapping, want := range map[string]string{
		"mappings: 5":                          "unmarshal",
		"mappings: [{match: a}]":               "name",
		"mappings: [{match: 'a..b', name: a}]": "invalid match",
		"mappings: [{match: ratelimit_server.*.response_time, name: a, observer_type: histogram, histogram_options: {buckets: [2, 1]}}]": "increasing",
		"mappings: [{match: ratelimit_server.*.response_time, name: a, observer_type: histogram, histogram_options: {buckets: [1, 1]}}]": "increasing",
		"defaults: {summary_options: {max_age: -1s}}":                                                               "max age",
		"mappings: [{match: ratelimit_server.*.response_time, name: a, observer_type: histogram, labels: {le: x}}]": "le",
	} {
		_, err := ratelimit.NewPrometheus(ratelimit.PrometheusConfig{Mapping: mapping, Statistics: w.statistics, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that says %s", mapping, err, want)
		}
	}
}

func TestResponseTimesAreSecondsByDefault(t *testing.T) {
	for milliseconds, want := range map[bool]string{false: "_sum{grpc_method=\"ShouldRateLimit\"} 0.0005\n", true: "_sum{grpc_method=\"ShouldRateLimit\"} 0.5\n"} {
		w := newWorld(t, true)
		m := newPrometheus(t, w, ratelimit.DefaultMapping(milliseconds), nil)
		m.Observe(ratelimit.ShouldRateLimit, 500*time.Microsecond)
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("milliseconds %v: a scrape has not %s", milliseconds, want)
		}
	}
}

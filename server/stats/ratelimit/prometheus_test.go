package ratelimit_test

import (
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/stats/mapped"
)

func newPrometheus(t testing.TB, w *world, mapping string, labels map[string]string) *mapped.Metrics {
	t.Helper()
	m, err := mapped.New(mapped.Config{Mapping: mapping, Labels: labels, Statistics: w.statistics, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scrape returns what Prometheus's own library reads from a scrape, by metric and labels as Prometheus writes them, but
// for what Go and the process tell. Of a histogram or summary it is the number of observations.
func scrape(t testing.TB, m *mapped.Metrics) map[string]float64 {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Code != 200 || families["go_goroutines"] == nil || families["process_open_fds"] == nil {
		t.Fatalf("a scrape answers %d, and lacks what Go or the process tells", answer.Code)
	}
	all := make(map[string]float64)
	for name, family := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		for _, one := range family.Metric {
			labels := make(model.LabelSet)
			for _, pair := range one.Label {
				labels[model.LabelName(pair.GetName())] = model.LabelValue(pair.GetValue())
			}
			id := name + labels.String()
			if _, twice := all[id]; twice {
				t.Errorf("%s is there twice", id)
			}
			all[id] = valueOf(one)
		}
	}
	return all
}

func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return float64(m.Summary.GetSampleCount())
}

// What dashboards and alerts ask for: names and labels as envoyproxy/ratelimit has them, seen on a running one.
func TestPrometheusSeesTheNamesAndLabelsOfEnvoyproxyRatelimit(t *testing.T) {
	w := newWorld(t, true)
	m := newPrometheus(t, w, mapped.DefaultMapping(false), nil)
	if got, want := scrape(t, m), map[string]float64{`ratelimit_localcache_entryCount{}`: 7, `ratelimit_service_config_load_success{}`: 1}; !maps.Equal(got, want) {
		t.Errorf("before the first request: %v; want %v: a series appears with its first hit", got, want)
	}
	for range 3 {
		w.ask(t, 7, "user=ann", "route=r1,masked_remote_address=0.0.0.0/0")
	}
	w.ask(t, 1, "route=r1,method=GET,path=/a", "route=r1,method=GET,path=/b", "tenant=b.c")
	w.ask(t, 21, "dark=1")
	w.decide(t, limit.Request{Domain: "nowhere", Descriptors: read(t, "a=1")})
	m.Took(3 * time.Millisecond)
	const address = `{domain="default/eg/http", key1="route_r1", key2="masked_remote_address_0_0_0_0/0"}`
	const method = `{domain="default/eg/http", key1="route_r1", key2="method_GET"}` // its paths are added up
	const user, dark = `{domain="default/eg/http", key1="user"}`, `{domain="default/eg/http", key1="dark"}`
	const dotted = `{domain="default/eg/http", key1="tenant_b", key2="c"}`
	const rule = "ratelimit_service_rate_limit_"
	want := map[string]float64{
		rule + "total_hits" + address: 21, rule + "within_limit" + address: 14, rule + "near_limit" + address: 4, rule + "over_limit" + address: 1,
		rule + "total_hits" + user: 21, rule + "within_limit" + user: 14, rule + "near_limit" + user: 4, rule + "over_limit" + user: 1,
		rule + "total_hits" + method: 2, rule + "within_limit" + method: 2,
		rule + "total_hits" + dotted: 1, rule + "within_limit" + dotted: 1,
		rule + "total_hits" + dark: 21, rule + "near_limit" + dark: 4, rule + "over_limit" + dark: 1, rule + "shadow_mode" + dark: 1,
		`ratelimit_service_rate_limit___unknown___domain_not_found{}`:            1,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}`:        6,
		`ratelimit_service_response_time_seconds{grpc_method="ShouldRateLimit"}`: 1,
		`ratelimit_service_config_load_success{}`:                                1,
		`ratelimit_localcache_entryCount{}`:                                      7,
	}
	if got := scrape(t, m); !maps.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", listed(got), listed(want))
	}
}

func listed(all map[string]float64) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(id + " " + model.SampleValue(all[id]).String() + "\n")
	}
	return b.String()
}

// A mapping as Envoy Gateway mounts it: with timer_type, which the mapper has since renamed, and dropping the rest.
const gatewayMapping = `
mappings:
- {match: "ratelimit.service.rate_limit.*.*.total_hits", name: hits, timer_type: histogram, labels: {domain: "$1", key1: "$2"}}
- {match: "ratelimit.service.rate_limit.*.*.*.total_hits", name: hits, timer_type: histogram, labels: {domain: "$1", key1: "$2", key2: "$3"}}
- {match: "ratelimit_server.*.response_time", name: took, timer_type: histogram, labels: {grpc_method: "$1"}}
- {match: ".", match_type: regex, action: drop, name: dropped}
`

func TestAMappingOfOnesOwnIsObeyed(t *testing.T) {
	for name, tc := range map[string]struct {
		mapping string
		labels  map[string]string
		want    map[string]float64
	}{
		"Envoy Gateway's": {gatewayMapping, map[string]string{"team": "a", "domain": "b", "no-dash": "c", "le": "\xff"}, map[string]float64{
			`hits{domain="default/eg/http", key1="user", no_dash="c", tag_le="_", team="a"}`:                                             1,
			`hits{domain="default/eg/http", key1="route_r1", key2="masked_remote_address_0_0_0_0/0", no_dash="c", tag_le="_", team="a"}`: 2,
			`took{domain="b", grpc_method="ShouldRateLimit", no_dash="c", tag_le="_", team="a"}`:                                         1,
		}},
		"scaled, for counters only, and with tags that win": {`
mappings:
- {match: "ratelimit.service.rate_limit.*.user.total_hits", name: hits, scale: 2.5, honor_labels: true, labels: {domain: "$1"}}
- {match: "ratelimit.localcache.*", match_metric_type: counter, name: never}
- {match: "ratelimit.service.rate_limit.*", match_type: regex, action: drop, name: x}
- {match: 'config_load_(\w+)', match_type: regex, name: "loads_$1"}
- {match: "ratelimit_server.*.*", match_metric_type: counter, action: drop, name: x}
`, map[string]string{"domain": "mine"}, map[string]float64{
			`hits{domain="mine"}`: 2.5, `ratelimit_localcache_entryCount{domain="mine"}`: 7,
			`ratelimit_server_ShouldRateLimit_response_time{domain="mine"}`: 1, `loads_success{domain="mine"}`: 1,
		}},
		"with one name for two kinds": {`
mappings:
- {match: ".*", match_type: regex, name: all}
`, nil, map[string]float64{`all{}`: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, true)
			m := newPrometheus(t, w, tc.mapping, tc.labels)
			w.ask(t, 1, "user=ann")
			w.ask(t, 2, "route=r1,masked_remote_address=0.0.0.0/0")
			m.Took(time.Millisecond)
			got := scrape(t, m)
			if !maps.Equal(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s", listed(got), listed(tc.want))
			}
		})
	}
}

func TestAMappingThatIsWrongIsRefused(t *testing.T) {
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
		_, err := mapped.New(mapped.Config{Mapping: mapping, Statistics: w.statistics, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that says %s", mapping, err, want)
		}
	}
}

func TestResponseTimesAreShownInSecondsUnlessAskedOtherwise(t *testing.T) {
	for milliseconds, want := range map[bool]string{false: "_sum{grpc_method=\"ShouldRateLimit\"} 0.0005\n", true: "_sum{grpc_method=\"ShouldRateLimit\"} 0.5\n"} {
		w := newWorld(t, true)
		m := newPrometheus(t, w, mapped.DefaultMapping(milliseconds), nil)
		m.Took(500 * time.Microsecond)
		answer := httptest.NewRecorder()
		m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("milliseconds %v: a scrape has not %s", milliseconds, want)
		}
	}
}

package charttest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// watched are values of a weir that asks a Redis about each request, and of its alerts. A busy machine wakes nobody here:
// neither weir nor an alert takes an answer for late.
func watched(t *testing.T, redis string) map[string]any {
	t.Helper()
	return valuesOf(t, `
redis: {addresses: ['`+redis+`'], timeout: 1m, leases: false, auth: {existingSecret: redis-credentials}}
descriptors: {shop.yaml: {domain: shop, descriptors: [
  {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}},
  {key: strict, on_backend_failure: error, rate_limit: {requests_per_unit: 1000000, unit: hour}}]}}
history: {enabled: false} # it is flushed by real time, and these minutes are shorter
monitoring: {rules: {enabled: true, latencySeconds: 60}}`)
}

// rulesWith are the alerts of a release.
func rulesWith(t *testing.T, values, more map[string]any) []monitoring.Rule {
	t.Helper()
	r := render(t, "weir", loader.MergeMaps(values, map[string]any{"monitoring": map[string]any{"rules": more}}))
	for _, o := range ofKind(r.Objects, "PrometheusRule") {
		if rules := decode(t, o).(*monitoring.PrometheusRule).Spec.Groups[0].Rules; len(rules) > 6 {
			return rules
		}
	}
	t.Fatal("the release has no PrometheusRule with more than 6 alerts")
	return nil
}

// A weir is scraped while its Redis answers, is killed, is back, is full, and has room again: at the end of each, these
// alerts fire and no others.
func TestAlertsFollowTheStateOfRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	address, values := redis.Addr, watched(t, redis.Addr)
	w := startRendered(t, render(t, "weir", values))
	load := func() {
		for range 4 {
			w.ask(t, "shop", "user", "ann")
		}
		w.ask(t, "shop", "strict", "ann")
	}
	counts := func(before, now samples) bool {
		return now.Sum("weir_redis_breaker_open", "") == 0 &&
			now.Sum("weir_hits_total", `outcome="within"`)-before.Sum("weir_hits_total", `outcome="within"`) == 5
	}
	const minutes = 13 // more than any alert waits, and than a rate looks back, together
	var seen recording
	var expected []any
	for _, phase := range []struct {
		name    string
		cause   func()
		reached func(before, now samples) bool
		alerts  []string
	}{
		{"calm", func() {}, counts, nil},
		{"gone", redis.Kill,
			func(_, now samples) bool { return now.Sum("weir_redis_breaker_open", address) == 1 },
			[]string{"WeirRedisShardDown", "WeirDegraded", "WeirErrors"}},
		{"back", func() { redis.Restart(t) }, counts, nil},
		{"full", func() { hasRoom(t, redis, "1") },
			func(before, now samples) bool {
				const metric, label = "weir_degraded_total", `reason="refused"`
				return now.Sum(metric, label)-before.Sum(metric, label) == 5
			},
			[]string{"WeirRedisTakesNoWrites", "WeirErrors"}},
		{"with room", func() { hasRoom(t, redis, "0") }, counts, nil},
	} {
		phase.cause()
		w.await(t, "Redis is "+phase.name, load, phase.reached)
		for range minutes {
			load()
			seen = append(seen, w.scraped(t))
		}
		expected = append(expected, firing(len(seen)-1, phase.alerts...))
	}
	named := map[string]any{"labels": fmt.Sprintf("{redis=%q, server=%q}", "main", address), "value": 1}
	expected = append(expected, map[string]any{"eval_time": fmt.Sprintf("%dm", 2*minutes-1), "exp_samples": []any{named},
		"expr": `group by (redis, server) (ALERTS{alertname="WeirRedisShardDown",alertstate="firing"})`})
	rules := rulesWith(t, values, nil)
	promtool(t, rules, map[string]any{
		"name": "before, during and after", "input_series": seen.inputs(rules), "promql_expr_test": expected,
	})
	// To whom a microsecond is slow, everything is.
	rules = rulesWith(t, values, map[string]any{"latencySeconds": 0.000001})
	calm := seen[:minutes]
	promtool(t, rules, map[string]any{"name": "slow", "input_series": calm.inputs(rules),
		"promql_expr_test": []any{firing(minutes-1, "WeirSlow", "WeirRedisSlow")}})
}

// hasRoom gives a Redis a bound of its memory in bytes, 0 for none.
func hasRoom(t *testing.T, redis *redistest.Server, bytes string) {
	t.Helper()
	if err := redis.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

// What a test can hardly bring about: a calm weir is scraped, and one of its series is changed, or another weir's is beside
// it. Its alert fires, alone.
func TestEachAlertFiresOnItsCause(t *testing.T) {
	t.Parallel()
	type fault struct {
		series, values, alert string
		minute                int
	}
	const lost = `weir_redis_counts_lost_total{.*redis="main"`
	inRedis := watched(t, startRedis(t).Addr)
	delete(inRedis, "history")
	fired := []string{"WeirRedisShardDown", "WeirDegraded", "WeirErrors", "WeirRedisTakesNoWrites", "WeirSlow", "WeirRedisSlow"} // above
	for _, store := range []struct {
		values map[string]any
		faults []fault
	}{
		{inRedis, []fault{
			{"weir_build_info", "_x30", "WeirDown", 10},
			{"weir_config_current", "0+0x30", "WeirConfigRejected", 10},
			{`weir_config_info{namespace="limits",pod="weir-7d9f8b6c5-z9wvq",hash="of-other-rules"}`, "1+0x30", "WeirConfigDiffers", 15},
			{`weir_domain_requests_total{.*domain="__unknown__",outcome="ok"`, "0+1x30", "WeirUnknownDomain", 15},
			{`weir_requests_total{.*outcome="invalid"`, "0+1x30", "WeirInvalidRequests", 15},
			{`weir_requests_total{.*outcome="too_large"`, "0+1x30", "WeirInvalidRequests", 15},
			{"weir_panics_total", "0+1x30", "WeirPanic", 10},
			{"weir_redis_foreign_library", "1+0x30", "WeirRedisForeignLibrary", 5},
			{`result="failed"`, "0+1x30", "WeirRefundsFail", 30},
			{lost, "0+1x150", "WeirOverAdmission", 150},
			{lost, "0+0x30 1+0x120", "", 150}, // one loss wakes nobody: it is over within the hour
			{"weir_history_up", "0+0x30", "WeirHistoryWaits", 15},
			{`weir_history_dropped_hits_total{.*reason="full"`, "0+1x30", "WeirHistoryLoses", 10},
			{"weir_history_lost_hits_total", "0+1x30", "WeirHistoryForgets", 10}}},
		{valuesOf(t, "memory: {maxKeys: 256}"), []fault{{`weir_memory_evicted_keys_total{.*state="open"`, "0+9x150", "WeirMemoryFull", 40}}},
		{valuesOf(t, "memcached: {addresses: ['"+memcachedtest.Start(t).Addr+"']}"), []fault{
			{`weir_memcached_servers{.*state="away"`, "1+0x150", "WeirMemcachedDown", 5},
			{"weir_memcached_evictions_total", "0+9x150", "WeirMemcachedEvicts", 40}}},
	} {
		values := loader.MergeMaps(valuesOf(t, "monitoring: {rules: {enabled: true}}"), store.values)
		w := startRendered(t, render(t, "weir", values))
		w.ask(t, "shop", "user", "ann")
		calm, rules := w.scraped(t), rulesWith(t, values, nil)
		tests := []map[string]any{held(t, rules, calm, "", "", firing(150))}
		for _, f := range store.faults {
			tests = append(tests, held(t, rules, calm, f.series, f.values, firing(f.minute, strings.Fields(f.alert)...)))
			fired = append(fired, f.alert)
		}
		promtool(t, rules, tests...)
		for _, rule := range rules {
			if !slices.Contains(fired, rule.Alert) {
				t.Errorf("no test has seen %s fire", rule.Alert)
			}
		}
	}
}

// held is a promtool test in which a weir shows the same all the time, but for the series that a pattern matches; a whole
// series is another weir's.
func held(t *testing.T, rules []monitoring.Rule, calm samples, pattern, values string, expected any) map[string]any {
	t.Helper()
	inputs, matched := recording{calm}.inputs(rules), pattern == ""
	for _, input := range inputs {
		series := input.(map[string]any)
		series["values"] = fmt.Sprint(series["values"], "+0x150")
		if pattern != "" && regexp.MustCompile(pattern).MatchString(series["series"].(string)) {
			series["values"], matched = values, true
		}
	}
	if strings.HasSuffix(pattern, "}") {
		inputs, matched = append(inputs, map[string]any{"series": pattern, "values": values}), true
	}
	if !matched {
		t.Errorf("weir shows no series like %s, so no alert can look at it", pattern)
	}
	return map[string]any{"name": pattern + " is " + values, "input_series": inputs, "promql_expr_test": []any{expected}}
}

// Who is woken at night reads what happens and what to do, by labels that the alert has, and follows a link to its section
// of the runbook, which asks for what weir shows.
func TestAlertsNameTheRemedy(t *testing.T) {
	t.Parallel()
	made := make(map[string]bool)
	for _, values := range []string{"{}", "redis: {addresses: ['redis:6379']}", "memcached: {addresses: ['memcached:11211']}"} {
		for _, rule := range rulesWith(t, valuesOf(t, values), map[string]any{"enabled": true}) {
			made[rule.Alert] = true
			said := rule.Annotations
			if said["summary"] == "" || said["description"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s tells the one who is woken too little: %v %v", rule.Alert, said, rule.Labels)
			}
			want := "https://github.com/weirproxy/weir/blob/main/cmd/weir/RUNBOOK.md#" + strings.ToLower(rule.Alert)
			if said["runbook_url"] != want {
				t.Errorf("the runbook of %s is %s, want %s", rule.Alert, said["runbook_url"], want)
			}
			text := said["summary"] + said["description"]
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				if !strings.Contains(rule.Expr.String(), m[1]) {
					t.Errorf("%s speaks of the label %s, which it has not: %s", rule.Alert, m[1], rule.Expr.String())
				}
			}
		}
	}
	told := make(map[string]bool)
	for heading, section := range readRunbook(t) {
		for _, query := range section.queries {
			wantLabels(t, "RUNBOOK.md, "+heading, query, metricsDocument(t))
		}
		if strings.HasPrefix(heading, "Weir") {
			told[heading] = true
		}
	}
	if !maps.Equal(told, made) {
		t.Errorf("RUNBOOK.md has sections for the alerts %v, and the chart makes %v", told, made)
	}
}

package charttest

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// watched are values of a weir that asks a Redis about each request, and of its alerts. A busy machine wakes nobody here:
// neither weir nor an alert takes an answer for late.
func watched(redis string) map[string]any {
	return map[string]any{
		"redis": map[string]any{"addresses": []any{redis}, "timeout": "1m", "leases": false,
			"auth": map[string]any{"existingSecret": "redis-credentials"}},
		"descriptors": map[string]any{"shop.yaml": "domain: shop\ndescriptors:\n" +
			"  - {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n" +
			"  - {key: strict, on_backend_failure: error, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n"},
		"history":    map[string]any{"enabled": false}, // it is flushed by real time, and these minutes are shorter
		"monitoring": map[string]any{"rules": map[string]any{"enabled": true, "latencySeconds": 60}},
	}
}

func rulesWith(t *testing.T, values, more map[string]any) []monitoring.Rule {
	t.Helper()
	return rulesOf(t, render(t, "weir", loader.MergeMaps(values, map[string]any{"monitoring": map[string]any{"rules": more}})))
}

// A weir is scraped while its Redis answers, is killed, is back, is full, and has room again: at the end of each, these
// alerts fire and no others.
func TestAlertsTellWhatBecomesOfRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	address, values := redis.Addr, watched(redis.Addr)
	w := startRendered(t, render(t, "weir", values))
	load := func() {
		for range 4 {
			w.ask(t, "user", "ann")
		}
		w.ask(t, "strict", "ann")
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
				const metric, label = "weir_degraded_decisions_total", `reason="refused"`
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
		"name": "before, during and after", "input_series": seen.inputs(t, rules), "promql_expr_test": expected,
	})
	// To whom a microsecond is slow, everything is.
	rules = rulesWith(t, values, map[string]any{"latencySeconds": 0.000001})
	calm := seen[:minutes]
	promtool(t, rules, map[string]any{"name": "slow", "input_series": calm.inputs(t, rules),
		"promql_expr_test": []any{firing(minutes-1, "WeirSlow", "WeirRedisSlow")}})
}

// hasRoom gives a Redis a bound of its memory in bytes, 0 for none.
func hasRoom(t *testing.T, redis *redistest.Server, bytes string) {
	t.Helper()
	if err := redis.Client().ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

// What a test can hardly bring about: a calm weir is scraped, and one of its series is changed. Its alert fires, alone.
func TestEachAlertFiresOnWhatItIsFor(t *testing.T) {
	t.Parallel()
	values := watched(startRedis(t).Addr)
	delete(values, "history")
	w := startRendered(t, render(t, "weir", values))
	w.ask(t, "user", "ann")
	calm := w.scraped(t)
	rules := rulesWith(t, values, nil)
	tests := []map[string]any{held(t, rules, calm, "", "", firing(150))}
	fired := []string{"WeirConfigDiffers", "WeirMemoryFull"}
	fired = append(fired, "WeirRedisShardDown", "WeirDegraded", "WeirErrors", "WeirRedisTakesNoWrites", "WeirSlow", "WeirRedisSlow") // above
	for _, tc := range []struct {
		series, values, alert string
		minute                int
	}{
		{"weir_build_info", "_x30", "WeirDown", 10},
		{"weir_config_current", "0+0x30", "WeirConfigRejected", 10},
		{`weir_domain_requests_total{.*domain="__unknown__",outcome="ok"`, "0+1x30", "WeirUnknownDomain", 15},
		{"weir_panics_total", "0+1x30", "WeirPanic", 10},
		{`result="failed"`, "0+1x30", "WeirRefundsFail", 30},
		{`weir_over_admission_bound{.*window="hour"`, "2+0x150", "WeirOverAdmission", 150},
		{"weir_history_up", "0+0x30", "WeirHistoryWaits", 15},
		{`weir_history_dropped_hits_total{.*reason="full"`, "0+1x30", "WeirHistoryLoses", 10},
		{"weir_history_lost_hits_total", "0+1x30", "WeirHistoryForgets", 10},
	} {
		tests = append(tests, held(t, rules, calm, tc.series, tc.values, firing(tc.minute, tc.alert)))
		fired = append(fired, tc.alert)
	}
	differs := held(t, rules, calm, "", "", firing(15, "WeirConfigDiffers"))
	differs["input_series"] = append(differs["input_series"].([]any), map[string]any{"values": "1+0x30",
		"series": `weir_config_info{namespace="limits",pod="weir-7d9f8b6c5-z9wvq",hash="of-other-rules"}`})
	tests = append(tests, differs)
	// One loss is nothing to wake anybody for: its bound is over within the window.
	tests = append(tests, held(t, rules, calm, `weir_over_admission_bound{.*window="hour"`, "1+0x30 2+0x60 1+0x60", firing(90)))
	promtool(t, rules, tests...)

	full := startRendered(t, render(t, "weir", map[string]any{"memory": map[string]any{"maxKeys": 256}}))
	full.ask(t, "user", "ann")
	inMemory := rulesWith(t, map[string]any{}, map[string]any{"enabled": true})
	promtool(t, inMemory, held(t, inMemory, full.scraped(t), `weir_memory_evicted_keys_total{.*state="open"`, "0+9x150",
		firing(40, "WeirMemoryFull")))
	counted := startRendered(t, render(t, "weir", map[string]any{"memcached": map[string]any{"addresses": []any{memcachedtest.Start(t).Addr}}}))
	counted.ask(t, "user", "ann")
	inMemcached := rulesWith(t, map[string]any{"memcached": map[string]any{"addresses": []any{"m:1"}}}, map[string]any{"enabled": true})
	promtool(t, inMemcached, held(t, inMemcached, counted.scraped(t), `weir_memcached_servers{.*state="away"`, "1+0x150", firing(5, "WeirMemcachedDown")),
		held(t, inMemcached, counted.scraped(t), "weir_memcached_evictions_total", "0+9x150", firing(40, "WeirMemcachedEvicts")))
	fired = append(fired, "WeirMemcachedDown", "WeirMemcachedEvicts")
	for _, rule := range slices.Concat(rules, inMemory, inMemcached) {
		if !slices.Contains(fired, rule.Alert) {
			t.Errorf("no test has seen %s fire", rule.Alert)
		}
	}
}

// held is a promtool test in which a weir shows the same all the time, but for the series that a pattern matches.
func held(t *testing.T, rules []monitoring.Rule, calm samples, pattern, values string, expected any) map[string]any {
	t.Helper()
	inputs, matched := recording{calm}.inputs(t, rules), pattern == ""
	for _, input := range inputs {
		series := input.(map[string]any)
		series["values"] = fmt.Sprint(series["values"], "+0x150")
		if pattern != "" && regexp.MustCompile(pattern).MatchString(series["series"].(string)) {
			series["values"], matched = values, true
		}
	}
	if !matched {
		t.Errorf("weir shows no series like %s, so no alert can look at it", pattern)
	}
	return map[string]any{"name": pattern + " is " + values, "input_series": inputs, "promql_expr_test": []any{expected}}
}

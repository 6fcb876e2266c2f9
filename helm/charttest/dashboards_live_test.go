package charttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// startPrometheus runs Debian's Prometheus, which scrapes some weirs as pods of one namespace.
func startPrometheus(t *testing.T, pods map[string]*weir) promAPI {
	t.Helper()
	config := "scrape_configs:\n  - job_name: weir\n    scrape_interval: 1s\n    scrape_timeout: 1s\n    static_configs:\n"
	for pod, w := range pods {
		config += fmt.Sprintf("      - {targets: [%q], labels: {namespace: limits, pod: %s}}\n", strings.TrimPrefix(w.admin, "http://"), pod)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint("127.0.0.1:", freePort(t))
	run(t, nil, prometheusBinary, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	awaitStatus(t, "http://"+address+"/-/ready", 200)
	return promAPI("http://" + address)
}

// mayBeEmpty are queries of the live dashboard that honestly find nothing here, and why.
var mayBeEmpty = map[string]string{}

// liveFleet are two weirs: one that counts in a Redis, with the process of that, and one that counts in memory.
func liveFleet(t *testing.T) (inRedis, inMemory *weir, redis *os.Process) {
	t.Helper()
	port := freePort(t)
	redis = startRedisOn(t, port)
	values := watched(fmt.Sprint("127.0.0.1:", port))
	values["history"] = map[string]any{"flushInterval": "1s"}
	values["descriptors"] = map[string]any{"shop.yaml": "domain: shop\nrefund_on_deny: true\ndescriptors:\n" +
		"  - {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n" +
		"  - {key: few, rate_limit: {requests_per_unit: 1, unit: hour}}\n" +
		"  - {key: a.b, value: c|d, rate_limit: {requests_per_unit: 1000000, unit: hour}}\n" +
		"  - {key: tried, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}\n"}
	return startRendered(t, render(t, "weir", values)), startRendered(t, render(t, "weir", nil)), redis
}

// A real Prometheus scrapes two weirs, one of which counts in memory, and the other in a Redis that then goes away: every
// query of the dashboard is answered, and has something to show. So have the variables.
func TestEveryQueryOfTheLiveDashboardFindsSomething(t *testing.T) {
	w, inMemory, process := liveFleet(t)
	prometheus := startPrometheus(t, map[string]*weir{"weir-a": w, "weir-b": inMemory})
	asked := 0
	load := func() {
		asked++
		for _, key := range []string{"user", "few", "tried"} {
			w.ask(t, key, "ann")
		}
		w.ask(t, "few", fmt.Sprint("ann", asked)) // whose first request is close to the limit
		w.ask(t, "a.b", "c|d")
		w.askDomain(t, "shpo", "user", "ann")
		inMemory.ask(t, "user", "ann")
		for _, answering := range []*weir{w, inMemory} {
			_, _ = promAPI(answering.admin+"/prometheus").offers(t, "path", "weir_hits_total") // counts, whatever it is
		}
	}
	d := dashboards(t)["live.json"]
	with := substitution{rateInterval: "1m", interval: 15 * time.Second, window: time.Hour, all: true}
	var missing []string
	await := func(what string, reached func() bool) {
		t.Helper()
		missing = nil
		const patience = 5 * time.Minute // two or three scrapes suffice, but nothing here is quick on a busy machine
		for deadline := time.Now().Add(patience); !reached(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("within %v Prometheus does not show %s %q", patience, what, missing)
			}
			load()
		}
	}
	shows := func(expr string) bool {
		found, err := prometheus.finds(t, target{}, expr, time.Now(), time.Now().Add(time.Second), time.Second)
		return err == nil && found
	}
	for what, expr := range map[string]string{"a Redis that answers": "rate(weir_redis_answer_seconds_count[1m])",
		"refusals": `rate(weir_requests_total{outcome="over_limit"}[1m])`, "shadow mode": "rate(weir_shadow_hits_total[1m])",
		"hits close to a limit": "rate(weir_near_hits_total[1m])", "a history in Redis": `weir_history_last_success_timestamp_seconds{pod="weir-a"}`} {
		await(what, func() bool { return shows(expr + " > 0") })
	}
	kill(t, process)
	await("decisions without Redis", func() bool { return shows(`rate(weir_degraded_decisions_total[1m]) > 0`) })

	for name, chosen := range map[string]map[string][]string{
		"all":     {},
		"one pod": {"namespace": {"limits"}, "job": {"weir"}, "pod": {"weir-a"}, "domain": {"shop"}},
		"several": {"namespace": {"limits", "other"}, "pod": {"weir-a", "weir-b"}, "domain": {"shop", "a.b"}, "path": {"few", "tried", "user", "a.b=c|d"}, "replica": {"instance"}},
	} {
		with.values = chosen
		left := d.expressions()
		maps.DeleteFunc(left, func(where string, of target) bool { // of a pod that counts in Redis, and has that alone
			return mayBeEmpty[where] != "" || name == "one pod" && strings.Contains(of.Expr, "weir_memory_")
		})
		await(fmt.Sprintf("what the dashboard asks with %s chosen", name), func() bool {
			for where, of := range left {
				now := time.Now().Add(time.Second)
				found, err := prometheus.finds(t, of, with.expand(d, of.Expr), now.Add(-time.Minute), now, time.Second)
				if err != nil {
					t.Fatalf("%s: %v\n%s", where, err, with.expand(d, of.Expr))
				}
				if found {
					delete(left, where)
				}
			}
			missing = slices.Sorted(maps.Keys(left))
			return len(missing) == 0
		})
	}
	if shows("rate(weir_request_total[1m])") {
		t.Error("a metric that is not there is found, so that this test proves nothing")
	}
	wantEveryVariableOffers(t, prometheus, d)
}

// wantEveryVariableOffers wants each variable that asks the source to offer something to choose.
func wantEveryVariableOffers(t *testing.T, asked promAPI, d *dashboard) {
	t.Helper()
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		selector, label := v.labelValues(t)
		values, err := asked.offers(t, label, substitution{}.expand(d, selector))
		if err != nil || len(values) == 0 {
			t.Errorf("the variable %s offers %v, %v", v.Name, values, err)
		}
	}
}

package charttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// startPrometheus runs Debian's Prometheus, which scrapes some weirs as pods of one namespace.
func startPrometheus(t *testing.T, pods map[string]*weir) promAPI {
	t.Helper()
	config := "scrape_configs:\n  - job_name: weir\n    scrape_interval: 1s\n    scrape_timeout: 1s\n    static_configs:\n"
	for pod, w := range pods {
		config += fmt.Sprintf("      - {targets: [%q], labels: {namespace: limits, pod: %s}}\n", strings.TrimPrefix(w.admin, "http://"), pod)
	}
	return promAPI(process.Prometheus(t, config, t.TempDir()))
}

// A Redis that holds some days of hits, a weir and a history server of one release over it, and weirs that count in
// memory and in memcached: every query of the dashboards is answered, and has something to show. So have the variables,
// and the queries of the document of all metrics.
func TestEveryDashboardQueryFindsData(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	until := time.Now().UTC().Truncate(24 * time.Hour)
	pastIn(t, redis.Addr, until)
	r := render(t, "weir", loader.MergeMaps(watched(t, redis.Addr), valuesOf(t, `
history: {enabled: true, flushInterval: 1s}
historyServer: {enabled: true}
telemetry: {endpoint: 'http://127.0.0.1:1', traces: {enabled: true}, metrics: {enabled: true}}
descriptors: {shop.yaml: {domain: shop, refund_on_deny: true, descriptors: [
  {key: user, rate_limit: {requests_per_unit: 1000000, unit: hour}},
  {key: few, rate_limit: {requests_per_unit: 1, unit: hour}},
  {key: a.b, value: c|d, rate_limit: {requests_per_unit: 1000000, unit: hour}},
  {key: tried, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}]}}`)))
	w := startPod(t, r.Objects, r.pod(t, "server"))
	serves := startPod(t, r.Objects, r.pod(t, "history"))
	d := dashboards(t)["history.json"]
	wantHistory(t, promAPI(w.admin+"/prometheus"), d, until)
	for _, of := range []*weir{w, serves} {
		wantBarsAddUp(t, promAPI(of.admin+"/prometheus"), d, until)
	}
	inMemcached := valuesOf(t, "memcached: {addresses: ['"+memcachedtest.Start(t).Addr+"']}")
	wantLive(t, w, startRendered(t, render(t, "weir", nil)), startRendered(t, render(t, "weir", inMemcached)), redis)
}

// wantLive has a real Prometheus scrape three weirs, the first of which counts in a Redis, which then goes away, and asks
// it all that the live dashboard asks.
func wantLive(t *testing.T, w, inMemory, inMemcached *weir, redis *redistest.Server) {
	t.Helper()
	prometheus := startPrometheus(t, map[string]*weir{"weir-a": w, "weir-b": inMemory, "weir-c": inMemcached})
	asked := 0
	load := func() {
		asked++
		for _, key := range []string{"user", "few", "tried"} {
			w.ask(t, "shop", key, "ann")
		}
		w.ask(t, "shop", "few", fmt.Sprint("ann", asked)) // whose first request is close to the limit
		w.ask(t, "shop", "a.b", "c|d")
		w.ask(t, "shpo", "user", "ann")
		inMemory.ask(t, "shop", "user", "ann")
		for _, answering := range []*weir{w, inMemory} {
			_, _ = promAPI(answering.admin+"/prometheus").offers(t, "path", "weir_hits_total") // counts, whatever it is
		}
	}
	d := dashboards(t)["live.json"]
	with := substitution{interval: 15 * time.Second}
	var missing []string
	await := func(what string, reached func() bool) {
		t.Helper()
		missing = nil
		weirtest.Eventually(t, "Prometheus shows "+what, func() error {
			if reached() {
				return nil
			}
			load()
			time.Sleep(250 * time.Millisecond) // there is a scrape a second
			return fmt.Errorf("not yet %q", missing)
		})
	}
	shows := func(expr string) bool {
		found, err := prometheus.numbers(t, expr, promv1.Range{End: time.Now().Add(time.Second)})
		return err == nil && len(found) > 0
	}
	for what, expr := range map[string]string{"a Redis that answers": "rate(weir_redis_answer_seconds_count[1m])",
		"refusals": `rate(weir_requests_total{outcome="over"}[1m])`, "shadow mode": `rate(weir_hits_total{outcome="shadow"}[1m])`,
		"hits close to a limit": "rate(weir_near_hits_total[1m])", "a history in Redis": `weir_history_landed_hits_total{pod="weir-a"}`} {
		await(what, func() bool { return shows(expr + " > 0") })
	}
	redis.Kill()
	await("decisions without Redis", func() bool { return shows(`rate(weir_degraded_total[1m]) > 0`) })

	chosen := map[string]map[string][]string{"several": {"namespace": {"limits", "other"}, "pod": {"weir-a", "weir-b", "weir-c"},
		"domain": {"shop", "a.b"}, "path": {"few", "tried", "user", "a.b=c|d"}, "replica": {"instance"}}}
	if !testing.Short() {
		chosen["all"] = nil
	}
	for name, values := range chosen {
		with.values = values
		left := d.expressions()
		await(fmt.Sprintf("what the dashboard asks with %s chosen", name), func() bool {
			now := time.Now().Add(time.Second)
			prometheus.strike(t, d, left, with, promv1.Range{Start: now.Add(-time.Minute), End: now, Step: time.Second})
			missing = slices.Sorted(maps.Keys(left))
			return len(missing) == 0
		})
	}
	if shows("rate(weir_request_total[1m])") {
		t.Error("a metric that is not there is found, so that this test proves nothing")
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			prometheus.wantOffers(t, d, v.Name, nil)
		}
	}
	wantDocumented(t, prometheus, w, inMemory, inMemcached)
}

// pastDays is how many days the dashboard of the history is looked at for.
const pastDays = 4

// pastIn fills the history in a Redis with made-up days, up to an hour.
func pastIn(t *testing.T, address string, until time.Time) {
	t.Helper()
	env := []string{"BACKEND_TYPE=redis", "REDIS_URL=" + address, "REDIS_AUTH=secret"}
	args := []string{"history", "demo", "--days", fmt.Sprint(pastDays + 1), "--until", until.Format(time.RFC3339)}
	if out, code := process.Command(t, env, process.Weir(t), args...); code != 0 {
		t.Fatalf("weir %v ends with %d\n%s", args, code, out)
	}
}

// wantHistory wants every query of the history's dashboard to have something to show, for some rule.
func wantHistory(t *testing.T, asked promAPI, d *dashboard, until time.Time) {
	t.Helper()
	left := d.expressions()
	with := substitution{interval: 6 * time.Hour, window: pastDays * 24 * time.Hour}
	for _, domain := range asked.wantOffers(t, d, "domain", nil) {
		for _, path := range asked.wantOffers(t, d, "path", map[string][]string{"domain": {domain}}) {
			with.values = map[string][]string{"domain": {domain}, "path": {path}}
			asked.strike(t, d, left, with, promv1.Range{Start: until.Add(-with.window), End: until, Step: with.interval})
		}
	}
	for _, where := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("for no rule anything is found by %s: %s", where, left[where].Expr)
	}
}

// wantBarsAddUp wants the bars of days, laid beside each other, to be the total of the range: none overlaps, none is left out,
// and no hit stands in two colours.
func wantBarsAddUp(t *testing.T, asked promAPI, d *dashboard, until time.Time) {
	t.Helper()
	const day, window = 24 * time.Hour, pastDays * 24 * time.Hour
	for _, path := range []string{"user", "remote_address"} { // which is in shadow mode
		with := substitution{interval: day, window: window, values: map[string][]string{"domain": {"shop"}, "path": {path}}}
		bars := 0.0
		for where, of := range d.expressions() {
			if strings.Contains(where, `"The rule, by day"`) {
				found, err := asked.numbers(t, with.expand(d, of.Expr), promv1.Range{Start: until.Add(-window), End: until.Add(-day), Step: day})
				bars += sumOf(t, found, err)
			}
		}
		all := with.expand(d, `sum(increase(weir_hits_total{domain="$domain",path="$path"}[$__range]))`)
		found, err := asked.numbers(t, all, promv1.Range{End: until})
		if total := sumOf(t, found, err); total < 1000 || bars != total {
			t.Errorf("the bars of %s in %d days add up to %v, and the range has %v", path, pastDays, bars, total)
		}
	}
}

func sumOf(t *testing.T, numbers []float64, err error) (sum float64) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range numbers {
		sum += number
	}
	return sum
}

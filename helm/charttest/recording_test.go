package charttest

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// samples are what a weir shows in one scrape, by series.
type samples = weirtest.Metrics

// scraped are weir's own series, with the labels that Prometheus adds.
func (w *weir) scraped(t *testing.T) samples {
	t.Helper()
	shown, err := weirtest.Scrape(w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	found := make(samples)
	for series, value := range shown {
		if name, labels, _ := strings.Cut(series, "{"); strings.HasPrefix(name, "weir_") {
			found[name+`{namespace="limits",pod="weir-7d9f8b6c5-x2k4q",`+cmp.Or(labels, "}")] = value
		}
	}
	return found
}

// ask asks for a verdict over HTTP, whatever it is.
func (w *weir) ask(t *testing.T, domain, key, value string) {
	t.Helper()
	question := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}]}]}`, domain, key, value)
	answer, err := http.Post(w.http+"/json", "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

// A recording is what a Prometheus would have stored of a weir: what it showed at each scrape. It plays a scrape a
// minute, the slowest that is usual; what the test does between two takes less than that.
type recording []samples

// await asks weir until what it shows is as expected, and only then begins to record.
func (w *weir) await(t *testing.T, what string, load func(), reached func(before, now samples) bool) {
	t.Helper()
	before := w.scraped(t)
	weirtest.Eventually(t, what, func() error {
		load()
		now := w.scraped(t)
		if !reached(before, now) {
			before = now
			return fmt.Errorf("weir does not show it: %v", now)
		}
		return nil
	})
}

// inputs are the series that rules ask for, in the form of a promtool test.
func (r recording) inputs(rules []monitoring.Rule) (inputs []any) {
	asked := ""
	for _, rule := range rules {
		asked += rule.Expr.String() + "\n"
	}
	all := make(samples)
	for _, scrape := range r {
		maps.Copy(all, scrape)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if metric, _, _ := strings.Cut(name, "{"); !strings.Contains(asked, metric) {
			continue
		}
		var values []string
		for _, scrape := range r {
			value := "_" // not there
			if v, shown := scrape[name]; shown {
				value = strconv.FormatFloat(v, 'f', -1, 64)
			}
			values = append(values, value)
		}
		inputs = append(inputs, map[string]any{"series": name, "values": strings.Join(values, " ")})
	}
	return inputs
}

// firing wants exactly these alerts to fire in a minute of a recording.
func firing(minute int, alerts ...string) any {
	samples := []any{}
	for _, alert := range alerts {
		samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
	}
	return map[string]any{"eval_time": fmt.Sprintf("%dm", minute), "exp_samples": samples,
		"expr": `group by (alertname) (ALERTS{alertstate="firing"})`}
}

// promtool runs `promtool test rules`.
func promtool(t *testing.T, rules []monitoring.Rule, tests ...map[string]any) {
	t.Helper()
	dir := t.TempDir()
	for _, test := range tests {
		test["interval"] = "1m"
	}
	for name, content := range map[string]any{
		"rules.yaml": map[string]any{"groups": []any{map[string]any{"name": "weir", "rules": rules}}},
		"test.yaml":  map[string]any{"rule_files": []any{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), toJSON(t, content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(process.Tool(t, "promtool"), "test", "rules", filepath.Join(dir, "test.yaml")).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}

package charttest

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// documented is a metric as server/stats/METRICS.md has it.
type documented struct {
	kind    string
	labels  []string // sorted
	queries []string
}

var inBackticks = regexp.MustCompile("`([^`]+)`")

// metricsDocument reads the tables of server/stats/METRICS.md.
func metricsDocument(t *testing.T) map[string]documented {
	t.Helper()
	all := make(map[string]documented)
	for line := range strings.Lines(readText(t, filepath.Join(root, "server", "stats", "METRICS.md"))) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		const bar = "\x00" // stands for one that is no border, \|
		cells := strings.Split(strings.Trim(strings.ReplaceAll(strings.TrimSpace(line), `\|`, bar), "|"), "|")
		for i := range cells {
			cells[i] = strings.ReplaceAll(cells[i], bar, "|")
		}
		if len(cells) != 5 {
			t.Fatalf("a row has %d cells, want metric, type, labels, what it means, query: %s", len(cells), line)
		}
		texts := func(cell int) (found []string) {
			for _, m := range inBackticks.FindAllStringSubmatch(cells[cell], -1) {
				found = append(found, m[1])
			}
			return found
		}
		name := texts(0)[0]
		if _, twice := all[name]; twice {
			t.Errorf("%s stands there twice", name)
		}
		one := documented{strings.TrimSpace(cells[1]), slices.Sorted(slices.Values(texts(2))), texts(4)}
		if len(one.queries) == 0 {
			one.queries = []string{usualQuery(name, one)}
		}
		all[name] = one
	}
	if len(all) < 30 {
		t.Fatalf("server/stats/METRICS.md tells of %d metrics", len(all))
	}
	return all
}

// usualQuery is that of a metric's type, which the document gives above the tables for those without one of their own.
func usualQuery(name string, of documented) string {
	by := strings.Join(of.labels, ", ")
	switch of.kind {
	case "counter":
		return fmt.Sprintf("sum by (%s) (increase(%s[15m]))", by, name)
	case "histogram":
		by = strings.Join(append([]string{"le"}, of.labels...), ", ")
		return fmt.Sprintf("histogram_quantile(0.99, sum by (%s) (rate(%s_bucket[5m])))", by, name)
	}
	return fmt.Sprintf("max by (%s) (%s)", by, name)
}

// declared are weir's own metrics in a scrape, with their types and the labels of their series.
func (w *weir) declared(t *testing.T) map[string]documented {
	t.Helper()
	text, err := weirtest.Get(w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]documented)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (weir_\S+) (\S+)$`).FindAllStringSubmatch(text, -1) {
		all[m[1]] = documented{kind: m[2]}
	}
	for name := range w.scraped(t) {
		of := labelsOf(t, name)
		metric, name := of.Get("__name__"), of.Get("__name__")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base := strings.TrimSuffix(name, part); all[base].kind == "histogram" {
				metric = base
			}
		}
		if one, is := all[metric]; is {
			for label := range of.Map() {
				if label != "__name__" && label != "le" && !slices.Contains(added, label) && !slices.Contains(one.labels, label) {
					one.labels = append(one.labels, label)
				}
			}
			slices.Sort(one.labels)
			all[metric] = one
		}
	}
	return all
}

// scraping is a weir under some load, which is recorded, and what it declared in the end.
func scraping(t *testing.T, values map[string]any, during func(w *weir, seen recording) recording) (recording, map[string]documented) {
	t.Helper()
	w := startRendered(t, render(t, "weir", values))
	seen := during(w, recording{w.scraped(t)})
	return seen, w.declared(t)
}

// Two weirs, one of which loses its Redis, show all that there is: the document has it, and nothing else, and Prometheus
// evaluates each of its queries over what they showed.
func TestEachMetricIsDocumentedWithAQueryThatFindsSomething(t *testing.T) {
	t.Parallel()
	load := func(w *weir) func() {
		return func() {
			w.ask(t, "user", "ann")
			w.askDomain(t, "shpo", "user", "ann")
		}
	}
	inMemory, ofMemory := scraping(t, map[string]any{}, func(w *weir, seen recording) recording { return seen.record(t, w, 3, load(w)) })
	redis := startRedis(t)
	values := watched(redis.Addr)
	delete(values, "history")
	inRedis, ofRedis := scraping(t, values, func(w *weir, seen recording) recording {
		w.await(t, "Redis counts", load(w), func(_, now samples) bool { return now.sum("weir_redis_answer_seconds_count", "") > 0 })
		seen = seen.record(t, w, 3, load(w))
		redis.Kill()
		w.await(t, "Redis has gone", load(w), func(_, now samples) bool { return now.sum("weir_degraded_decisions_total", "") > 0 })
		return seen.record(t, w, 3, load(w))
	})
	shown := maps.Clone(ofMemory)
	maps.Copy(shown, ofRedis)
	document := metricsDocument(t)
	for name, is := range shown {
		one, there := document[name]
		if !there {
			t.Errorf("weir shows %s, and server/stats/METRICS.md does not tell of it", name)
		} else if one.kind != is.kind || !slices.Equal(one.labels, is.labels) {
			t.Errorf("server/stats/METRICS.md has %s as a %s with the labels %v; weir shows a %s with %v",
				name, one.kind, one.labels, is.kind, is.labels)
		}
	}
	var tests []map[string]any
	var all []monitoring.Rule
	for name, one := range document {
		if _, there := shown[name]; !there {
			t.Errorf("server/stats/METRICS.md tells of %s, which weir does not show", name)
		}
		seen := inRedis
		if _, there := ofRedis[name]; !there {
			seen = inMemory
		}
		for _, query := range one.queries {
			if !strings.Contains(query, name) {
				t.Errorf("the query of %s does not ask for it: %s", name, query)
			}
			wantLabels(t, name, query, shown)
			rules := []monitoring.Rule{{Alert: "Query", Expr: intstr.FromString(query)}}
			all = append(all, rules...)
			tests = append(tests, map[string]any{"name": query, "input_series": seen.inputs(t, rules),
				"promql_expr_test": []any{finds("count("+query+") >= bool 1", len(seen)-1)}})
		}
	}
	if !t.Failed() { // promtool would only repeat it
		promtool(t, all[:1], tests...)
	}
}

// finds wants an expression to be 1 in a minute of a recording.
func finds(expression string, minute int) any {
	return map[string]any{"eval_time": fmt.Sprintf("%dm", minute), "expr": expression,
		"exp_samples": []any{map[string]any{"labels": "{}", "value": 1}}}
}

// wantLabels wants what a query selects and groups by to be labels of what it asks for, or of every target.
func wantLabels(t *testing.T, name, query string, shown map[string]documented) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("the query of %s is no PromQL: %v\n%s", name, err, query)
		return
	}
	known, asked := slices.Concat(added, []string{"__name__", "le"}), []string{}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			known = append(known, shown[strings.TrimSuffix(n.Name, "_bucket")].labels...)
			for _, m := range n.LabelMatchers {
				asked = append(asked, m.Name)
			}
		case *parser.AggregateExpr:
			asked = append(asked, n.Grouping...)
		}
		return nil
	})
	for _, label := range asked {
		if !slices.Contains(known, label) {
			t.Errorf("the query of %s asks for the label %s, which nothing in it has: %s", name, label, query)
		}
	}
}

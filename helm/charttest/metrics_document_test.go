package charttest

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// documented is a metric as server/stats/METRICS.md has it.
type documented struct {
	kind    string
	labels  []string // sorted
	queries []string // none where the usual one of its type does, which the document gives above the tables
}

var (
	inBackticks = regexp.MustCompile("`([^`]+)`")
	tableCell   = regexp.MustCompile(`(\\\||[^|])+`) // in which \| is no border
)

// metricsDocument reads the tables of server/stats/METRICS.md.
func metricsDocument(t *testing.T) map[string]documented {
	t.Helper()
	all := make(map[string]documented)
	for line := range strings.Lines(readText(t, filepath.Join(root, "server", "stats", "METRICS.md"))) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := tableCell.FindAllString(strings.Trim(line, "|\n"), -1)
		if len(cells) != 4 {
			t.Fatalf("a row has %d cells, want metric, labels, what it means, query: %s", len(cells), line)
		}
		texts := func(cell int) (found []string) {
			for _, m := range inBackticks.FindAllStringSubmatch(cells[cell], -1) {
				found = append(found, strings.ReplaceAll(m[1], `\|`, "|"))
			}
			return found
		}
		name := texts(0)[0]
		if _, twice := all[name]; twice {
			t.Errorf("%s stands there twice", name)
		}
		all[name] = documented{kindOf(name), slices.Sorted(slices.Values(texts(1))), texts(3)}
	}
	if len(all) < 30 {
		t.Fatalf("server/stats/METRICS.md tells of %d metrics", len(all))
	}
	return all
}

// kindOf returns the type that server/stats/METRICS.md gives to metrics with such a name.
func kindOf(name string) string {
	switch {
	case strings.HasSuffix(name, "_total"):
		return "counter"
	case strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_timestamp_seconds"):
		return "histogram"
	}
	return "gauge"
}

// declared are weir's own metrics in a scrape, with their types and the labels of their series.
func (w *weir) declared(t *testing.T) map[string]documented {
	t.Helper()
	text, err := weirtest.Get(w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]documented)
	for name, family := range families {
		labels := make(map[string]bool)
		for _, series := range family.GetMetric() {
			for _, pair := range series.GetLabel() {
				labels[pair.GetName()] = true
			}
		}
		if strings.HasPrefix(name, "weir_") {
			all[name] = documented{kind: strings.ToLower(family.GetType().String()), labels: slices.Sorted(maps.Keys(labels))}
		}
	}
	return all
}

// wantDocumented wants server/stats/METRICS.md to tell of all that some weirs show, with types and labels, and of nothing
// else, and each query there to find something in the Prometheus that scrapes them.
func wantDocumented(t *testing.T, prometheus promAPI, weirs ...*weir) {
	t.Helper()
	shown := make(map[string]documented)
	for _, w := range weirs {
		maps.Copy(shown, w.declared(t))
	}
	document := metricsDocument(t)
	alike := cmp.Options{cmp.AllowUnexported(documented{}), cmpopts.IgnoreFields(documented{}, "queries")}
	if diff := cmp.Diff(document, shown, alike); diff != "" {
		t.Errorf("server/stats/METRICS.md tells of (-) what weir shows (+):\n%s", diff)
	}
	for name, one := range document {
		for _, query := range one.queries {
			if !strings.Contains(query, name) {
				t.Errorf("the query of %s does not ask for it: %s", name, query)
			}
			wantLabels(t, name, query, shown)
			if found, err := prometheus.numbers(t, "count("+query+")", promv1.Range{End: time.Now()}); err != nil || len(found) == 0 {
				t.Errorf("the query of %s finds nothing (%v): %s", name, err, query)
			}
		}
	}
}

// wantLabels wants a query to ask for metrics that weir shows, and what it selects and groups by to be labels of these, or of
// every target. It returns what the query selects.
func wantLabels(t *testing.T, name, query string, shown map[string]documented) (selectors []*parser.VectorSelector) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("the query of %s is no PromQL: %v\n%s", name, err, query)
		return nil
	}
	known, asked := []string{"namespace", "pod", "job", "instance", "__name__", "le"}, []string{} // Prometheus adds them
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selectors = append(selectors, n)
			metric, is := shown[strings.TrimSuffix(n.Name, "_bucket")]
			if !is && strings.HasPrefix(n.Name, "weir_") {
				t.Errorf("the query of %s asks for %s, which weir does not show: %s", name, n.Name, query)
			}
			known = append(known, metric.labels...)
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
	return selectors
}

package charttest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// series are what a weir shows at /metrics: for each name, the labels of each of its series.
type series map[string][]map[string]string

var (
	seriesLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? `)
	labelPair  = regexp.MustCompile(`([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"`)
)

func (w *weir) scrape(t *testing.T) series {
	t.Helper()
	_, text, _ := body(t, w.admin+"/metrics", nil)
	found := make(series)
	for line := range strings.Lines(text) {
		m := seriesLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		of := make(map[string]string)
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			of[pair[1]] = pair[2]
		}
		found[m[1]] = append(found[m[1]], of)
	}
	if len(found) < 10 {
		t.Fatalf("a scrape gave %d metrics:\n%s", len(found), text)
	}
	return found
}

// added are the labels that Prometheus puts on what it scrapes.
var added = []string{"namespace", "pod", "job", "instance"}

// eachSelector calls f with each selector of an expression, which must be PromQL.
func eachSelector(t *testing.T, where, expression string, f func(*parser.VectorSelector)) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s is no PromQL: %v\n%s", where, err, expression)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, is := node.(*parser.VectorSelector); is {
			f(selector)
		}
		return nil
	})
}

// wantSeries wants each selector of an expression to find something of what weir shows.
func wantSeries(t *testing.T, where, expression string, shown series) {
	t.Helper()
	eachSelector(t, where, expression, func(selector *parser.VectorSelector) {
		matches := func(of map[string]string) bool {
			return !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool {
				return m.Name != "__name__" && !slices.Contains(added, m.Name) && !m.Matches(of[m.Name])
			})
		}
		if !slices.ContainsFunc(shown[selector.Name], matches) {
			t.Errorf("%s looks for %s, which weir does not show; it shows %v", where, selector, slices.Sorted(maps.Keys(shown)))
		}
	})
}

func TestAlertsLookForWhatWeirShows(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"memory": {},
		"redis":  {"redis": map[string]any{"addresses": []any{fmt.Sprint("127.0.0.1:", freePort(t))}}}, // weir starts without it
	} {
		t.Run(name, func(t *testing.T) {
			values["monitoring"] = map[string]any{"rules": map[string]any{"enabled": true}}
			r := render(t, "weir", values)
			w := startRendered(t, r)
			w.ask(t, "user", "ann") // a rule has series from its first decision on
			shown := w.scrape(t)
			for _, rule := range rulesOf(t, r) {
				wantSeries(t, rule.Alert, rule.Expr.String(), shown)
			}
		})
	}
}

// rulesOf are the alerts of a release.
func rulesOf(t *testing.T, r *Rendered) []monitoring.Rule {
	t.Helper()
	for _, o := range r.Objects {
		if rules, isRules := decode(t, o).(*monitoring.PrometheusRule); isRules && len(rules.Spec.Groups[0].Rules) > 6 {
			return rules.Spec.Groups[0].Rules
		}
	}
	t.Fatal("the release has no PrometheusRule with more than 6 alerts")
	return nil
}

// Who is woken at night reads what happens and what to do, follows a link that leads somewhere, and finds the alert in the
// chart's README.
func TestAlertsSayWhatToDo(t *testing.T) {
	const repository = "https://github.com/weirproxy/weir/blob/main/"
	documented := make(map[string]bool)
	row, readme := regexp.MustCompile("(?m)^\\| `(Weir[A-Za-z]+)` \\|"), readText(t, filepath.Join(chartDir, "README.md"))
	for _, m := range row.FindAllStringSubmatch(readme, -1) {
		documented[m[1]] = false
	}
	for _, redis := range []map[string]any{{}, {"addresses": []any{"redis:6379"}}} {
		for _, rule := range rulesOf(t, render(t, "weir", map[string]any{"redis": redis,
			"monitoring": map[string]any{"rules": map[string]any{"enabled": true}}})) {
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s tells the one who is woken too little: %v %v", rule.Alert, rule.Annotations, rule.Labels)
			}
			file, heading, _ := strings.Cut(strings.TrimPrefix(rule.Annotations["runbook_url"], repository), "#")
			if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || !slices.Contains(anchors(string(text)), heading) {
				t.Errorf("the runbook of %s leads nowhere: %s (%v)", rule.Alert, rule.Annotations["runbook_url"], err)
			}
			if _, is := documented[rule.Alert]; !is {
				t.Errorf("helm/weir/README.md does not tell of %s", rule.Alert)
			}
			documented[rule.Alert] = true
		}
	}
	for alert, rendered := range documented {
		if !rendered {
			t.Errorf("helm/weir/README.md tells of %s, which the chart does not make", alert)
		}
	}
}

// anchors are what a link may name in a document: its headings, as a forge writes them.
func anchors(document string) (found []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		kept := regexp.MustCompile(`[^-_a-z0-9 ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found = append(found, strings.ReplaceAll(kept, " ", "-"))
	}
	return found
}

func TestAnAlertOnNothingIsNoticed(t *testing.T) {
	shown := series{"weir_requests_total": {{"outcome": "ok"}}}
	for _, expression := range []string{`rate(weir_request_total[5m])`, `weir_requests_total{outcome="error"}`, `sum(`} {
		inner := &testing.T{}
		wantSeries(inner, "an alert", expression, shown)
		if !inner.Failed() {
			t.Errorf("%s passes, so the test of the alerts proves nothing", strings.TrimSpace(expression))
		}
	}
}

package charttest

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
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
	answer, err := http.Get(w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	found := make(series)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		m := seriesLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		of := make(map[string]string)
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			of[pair[1]] = pair[2]
		}
		found[m[1]] = append(found[m[1]], of)
	}
	if err := lines.Err(); err != nil || len(found) < 10 {
		t.Fatalf("a scrape gave %d metrics, %v", len(found), err)
	}
	return found
}

// added are the labels that Prometheus puts on what it scrapes.
var added = []string{"namespace", "pod", "job", "instance"}

// wantSeries wants each selector of an expression to find something of what weir shows.
func wantSeries(t *testing.T, where, expression string, shown series) {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s is no PromQL: %v\n%s", where, err, expression)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		selector, isSelector := node.(*parser.VectorSelector)
		if !isSelector {
			return nil
		}
		matches := func(of map[string]string) bool {
			return !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool {
				return m.Name != "__name__" && !slices.Contains(added, m.Name) && !m.Matches(of[m.Name])
			})
		}
		if !slices.ContainsFunc(shown[selector.Name], matches) {
			t.Errorf("%s looks for %s, which weir does not show; it shows %v", where, selector, slices.Sorted(maps.Keys(shown)))
		}
		return nil
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
			shown := startRendered(t, r).scrape(t)
			alerts := 0
			for _, o := range r.Objects {
				rules, isRules := decode(t, o).(*monitoring.PrometheusRule)
				if !isRules {
					continue
				}
				for _, rule := range rules.Spec.Groups[0].Rules {
					wantSeries(t, rule.Alert, rule.Expr.String(), shown)
					if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
						t.Errorf("%s tells the one who is woken too little: %v %v", rule.Alert, rule.Annotations, rule.Labels)
					}
					alerts++
				}
			}
			if alerts < 6 {
				t.Errorf("%d alerts are rendered, want at least 6", alerts)
			}
		})
	}
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

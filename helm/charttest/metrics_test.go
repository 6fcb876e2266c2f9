package charttest

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
)

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

// Who is woken at night reads what happens and what to do, by labels that the alert has, and follows a link to its section
// of the runbook, which asks for what weir shows.
func TestAlertsSayWhatToDo(t *testing.T) {
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

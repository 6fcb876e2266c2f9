package charttest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// pastDays is how many days the dashboard of the history is looked at for.
const pastDays = 4

// pastIn fills the history in a Redis with made-up days, up to an hour.
func pastIn(t *testing.T, address string, until time.Time) {
	t.Helper()
	demo := exec.Command(process.Weir(t), "history", "demo", "--days", fmt.Sprint(pastDays+1), "--until", until.Format(time.RFC3339))
	demo.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "BACKEND_TYPE=redis", "REDIS_URL=" + address, "REDIS_AUTH=secret"}
	if out, err := demo.CombinedOutput(); err != nil {
		t.Fatalf("weir history demo: %v\n%s", err, out)
	}
}

// wantHistory wants every query of the history's dashboard to have something to show, for some rule.
func wantHistory(t *testing.T, asked promAPI, d *dashboard, until time.Time) {
	t.Helper()
	left := d.expressions()
	for _, rule := range rulesOffered(t, asked, d) {
		with := substitution{values: rule, interval: 6 * time.Hour, window: pastDays * 24 * time.Hour}
		asked.strike(t, d, left, with, until, with.window, with.interval)
	}
	for _, where := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("for no rule anything is found by %s: %s", where, left[where].Expr)
	}
}

// rulesOffered are the choices of the dashboard's variables.
func rulesOffered(t *testing.T, asked promAPI, d *dashboard) (rules []map[string][]string) {
	t.Helper()
	offers := func(name string, chosen map[string][]string) []string {
		i := slices.IndexFunc(d.Templating.List, func(v variable) bool { return v.Name == name })
		return asked.wantOffers(t, d, d.Templating.List[i], chosen)
	}
	for _, domain := range offers("domain", nil) {
		for _, path := range offers("path", map[string][]string{"domain": {domain}}) {
			rules = append(rules, map[string][]string{"domain": {domain}, "path": {path}})
		}
	}
	return rules
}

// wantBarsAddUp wants the bars of days, laid beside each other, to be the total of the range: none overlaps, none is left out,
// and no hit stands in two colours.
func wantBarsAddUp(t *testing.T, asked promAPI, d *dashboard, until time.Time) {
	t.Helper()
	const day, window = 24 * time.Hour, pastDays * 24 * time.Hour
	with := substitution{interval: day, window: window, values: map[string][]string{"domain": {"shop"}, "path": {"user"}}}
	bars := 0.0
	for where, of := range d.expressions() {
		if strings.Contains(where, `"The rule, by day"`) {
			found, err := asked.ranged(t, with.expand(d, of.Expr), until.Add(-window), until.Add(-day), day)
			bars += sumOf(t, found, err)
		}
	}
	all := with.expand(d, `sum(increase(weir_hits_total{domain="$domain",path="$path"}[$__range]))`)
	found, err := asked.instant(t, all, until)
	if total := sumOf(t, found, err); total < 1000 || bars != total {
		t.Errorf("the bars of %d days add up to %v, and the range has %v", pastDays, bars, total)
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

package charttest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the provisioning of Grafana, and whoever bookmarks a dashboard, needs; and each question goes to the source chosen.
func TestDashboardsCanBeProvisioned(t *testing.T) {
	t.Parallel()
	asks := regexp.MustCompile(`"datasource": *(\{[^}]*\}|"[^"]*")`)
	for name, d := range dashboards(t) {
		if d.ID != nil || d.Inputs != nil || d.UID != "weir-"+strings.TrimSuffix(name, ".json") || !slices.Contains(d.Tags, "weir") {
			t.Errorf("%s has the id %v, the inputs %v, the uid %s and the tags %v: links and bookmarks name it by weir and its name",
				name, d.ID, d.Inputs, d.UID, d.Tags)
		}
		if d.SchemaVersion != 39 {
			t.Errorf("%s has the schema %d, want 39, which Grafana 10.3 and later open", name, d.SchemaVersion)
		}
		if first := d.Templating.List[0]; first.Name != "datasource" || first.Type != "datasource" || string(first.Query) != `"prometheus"` {
			t.Errorf("%s begins with the variable %+v, want datasource, a Prometheus: the others ask it", name, first)
		}
		found := asks.FindAllStringSubmatch(readText(t, filepath.Join(dashboardFolder, name)), -1)
		if len(found) < len(d.Panels) {
			t.Errorf("%s names %d data sources for %d panels: without one Grafana asks its own default", name, len(found), len(d.Panels))
		}
		for _, m := range found {
			if !strings.Contains(m[1], "${datasource}") && !strings.Contains(m[1], "-- Grafana --") {
				t.Errorf("%s asks %s, want the data source that is chosen", name, m[1])
			}
		}
	}
	// Bars of a day are days of UTC, in which the history stores them.
	if d := dashboards(t)["history.json"]; d.Timezone != "utc" {
		t.Errorf("history.json has the time zone %q, want utc: elsewhere its bars cut days", d.Timezone)
	}
}

// Rates of what is scraped look back four scrapes, which Grafana calculates. A fleet is chosen by variables: nothing is
// asked of all that a Prometheus has, or of one namespace that somebody had. And what server/stats/METRICS.md tells of is
// shown, all of it and by its labels.
func TestLiveQueriesSelectPodsAndExistingMetrics(t *testing.T) {
	t.Parallel()
	d, document, asked := dashboards(t)["live.json"], metricsDocument(t), make(map[string]bool)
	chosen := map[string]string{"namespace": "N", "job": "J", "pod": "P"}
	with := substitution{values: map[string][]string{"namespace": {"N"}, "job": {"J"}, "pod": {"P"}}}
	for where, of := range d.expressions() {
		for _, m := range regexp.MustCompile(`rate\([^\[]*\[([^\]]+)\]`).FindAllStringSubmatch(of.Expr, -1) {
			if m[1] != "$__rate_interval" {
				t.Errorf("%s: a rate looks back %s, want $__rate_interval", where, m[1])
			}
		}
		if strings.Contains(of.Expr, "$__interval") {
			t.Errorf("%s: an $__interval may lie between two scrapes: use $__rate_interval, or a time", where)
		}
		for _, selector := range wantLabels(t, where, with.expand(d, of.Expr), document) {
			asked[strings.TrimSuffix(selector.Name, "_bucket")] = true
			left := maps.Clone(chosen)
			for _, m := range selector.LabelMatchers {
				if left[m.Name] == m.Value {
					delete(left, m.Name)
				}
			}
			if len(left) > 0 {
				t.Errorf("%s: %s is not of the chosen %v", where, selector, slices.Sorted(maps.Keys(left)))
			}
		}
	}
	for metric := range document {
		if !asked[metric] {
			t.Errorf("server/stats/METRICS.md tells of %s, and live.json does not show it", metric)
		}
	}
}

// The history has no scrapes, and its bars must meet without overlapping. A bar stands where it begins, so it looks ahead.
func TestHistoryBarsMeetWithoutOverlap(t *testing.T) {
	t.Parallel()
	ranges := regexp.MustCompile(`\[([$\w]+)\]( offset -\$__interval)?`)
	d := dashboards(t)["history.json"]
	for where, of := range d.expressions() {
		for _, m := range ranges.FindAllStringSubmatch(of.Expr, -1) {
			bar := m[1] == "$__interval" && m[2] != "" && of.Range
			if !bar && (m[1] != "$__range" || m[2] != "" || !of.Instant) {
				t.Errorf("%s: looks at %s; want [$__interval] offset -$__interval in a curve and [$__range] in a total", where, m[0])
			}
		}
	}
	for _, p := range d.Panels {
		if p.Type == "timeseries" && p.Interval != "1m" && p.Interval != "1d" {
			t.Errorf("history.json: the panel %q has the least interval %q, want 1m, the finest that is stored, or 1d",
				p.Title, p.Interval)
		}
	}
}

// Links lead to the other dashboard, to a document that is there, or to weir's page, with what the page reads; and panels
// name sections of the runbook.
func TestDashboardLinksResolve(t *testing.T) {
	t.Parallel()
	const repository = "https://github.com/weirproxy/weir/blob/main/"
	runbook, linked := readRunbook(t), regexp.MustCompile(`"url": *"([^"]*)"`)
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			_, alerts, _ := strings.Cut(strings.TrimSuffix(p.Description, "."), "Runbook: ")
			for alert := range strings.SplitSeq(alerts, ", ") {
				if _, is := runbook[alert]; alert != "" && !is {
					t.Errorf("%s: the panel %q names %s of the runbook, which has no such section", name, p.Title, alert)
				}
			}
		}
		pages := 0
		for _, m := range linked.FindAllStringSubmatch(readText(t, filepath.Join(dashboardFolder, name)), -1) {
			path, fragment, _ := strings.Cut(m[1], "#")
			file, isDocument := strings.CutPrefix(path, repository)
			uid, isDashboard := strings.CutPrefix(path, "/d/weir-")
			switch {
			case isDashboard:
				file, _, _ = strings.Cut(uid, "?")
				file = filepath.Join("helm", "weir", "dashboards", file+".json")
			case path == "${page}/":
				pages++
				for _, part := range []string{"domain=", "&path=", "&from=${__from:date:seconds}", "&to=${__to:date:seconds}"} {
					if fragment != "" && !strings.Contains(fragment, part) {
						t.Errorf("%s: a link to weir's page lacks %q, by which it shows the same: %s", name, part, m[1])
					}
				}
				continue
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil || !isDocument && !isDashboard {
				t.Errorf("%s: a link leads nowhere: %s (%v)", name, m[1], err)
			}
		}
		if pages == 0 {
			t.Errorf("%s has no link to weir's page", name)
		}
	}
}

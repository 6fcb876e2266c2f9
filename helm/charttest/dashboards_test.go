package charttest

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// A dashboard is written in one way, so that a change shows as what it is.
func TestDashboardsAreWrittenInOneWay(t *testing.T) {
	t.Parallel()
	for name := range dashboards(t) {
		text := readText(t, filepath.Join(dashboardFolder, name))
		var tree any
		if err := json.Unmarshal([]byte(text), &tree); err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		encoder := json.NewEncoder(&plain)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(tree); err != nil {
			t.Fatal(err)
		}
		if plain.String() != text {
			t.Errorf("%s is not indented by two spaces with its keys in order; jq -S . writes it so", name)
		}
	}
}

// What the provisioning of Grafana, and whoever bookmarks a dashboard, needs.
func TestDashboardsCanBeProvisioned(t *testing.T) {
	t.Parallel()
	for name, d := range dashboards(t) {
		if d.ID != nil || d.Inputs != nil {
			t.Errorf("%s has an id or __inputs, which are of one Grafana's database and of its import by hand", name)
		}
		if want := "weir-" + strings.TrimSuffix(name, ".json"); d.UID != want {
			t.Errorf("%s has the uid %q, want %s: links and bookmarks name it", name, d.UID, want)
		}
		if d.SchemaVersion != 39 {
			t.Errorf("%s has the schema %d, want 39, which Grafana 10.3 and later open", name, d.SchemaVersion)
		}
		if d.Title == "" || d.Description == "" || d.Refresh == "" || d.Time.From == "" || !slices.Contains(d.Tags, "weir") {
			t.Errorf("%s lacks a title, a description, a refresh, a time range or the tag weir", name)
		}
	}
	// Bars of a day are days of UTC, in which the history stores them.
	if d := dashboards(t)["history.json"]; d.Timezone != "utc" {
		t.Errorf("history.json has the time zone %q, want utc: elsewhere its bars cut days", d.Timezone)
	}
}

func TestEveryQueryGoesToTheChosenDataSource(t *testing.T) {
	t.Parallel()
	want := source{"prometheus", "${datasource}"}
	for name, d := range dashboards(t) {
		if first := d.Templating.List[0]; first.Name != "datasource" || first.Type != "datasource" || string(first.Query) != `"prometheus"` {
			t.Errorf("%s begins with the variable %+v, want datasource, a Prometheus: the others ask it", name, first)
		}
		for where, of := range d.expressions() {
			if of.Datasource != want {
				t.Errorf("%s asks %v, want the data source that is chosen, %v", where, of.Datasource, want)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" && v.Datasource != want {
				t.Errorf("%s: the variable %s asks %v, want %v", name, v.Name, v.Datasource, want)
			}
		}
		for _, p := range d.Panels {
			if p.Type != "row" && p.Datasource != want {
				t.Errorf("%s: the panel %q asks %v, want %v", name, p.Title, p.Datasource, want)
			}
		}
	}
}

// units are those of Grafana's that the dashboards use; of one that it does not know it shows the number, and says nothing.
var units = []string{"none", "locale", "percentunit", "s", "bytes", "ops", "reqps", "suffix: hits/s", "suffix: /min"}

// Who looks at three in the morning reads what a number is, in which unit, and what it means.
func TestEveryPanelSaysWhatItShows(t *testing.T) {
	t.Parallel()
	runbook := anchors(readText(t, filepath.Join(root, "cmd", "weir", "RUNBOOK.md")))
	for name, d := range dashboards(t) {
		for _, p := range d.Panels {
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %d %q has no title, no description that is a sentence, no unit or no query", name, p.ID, p.Title)
			}
			if _, alerts, names := strings.Cut(strings.TrimSuffix(p.Description, "."), "Runbook: "); names {
				for _, alert := range strings.Split(alerts, ", ") {
					if !slices.Contains(runbook, strings.ToLower(alert)) {
						t.Errorf("%s: the panel %q names %s of the runbook, which has no such section", name, p.Title, alert)
					}
				}
			}
			if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
				t.Errorf("%s: the panel %q has the unit %q, which is none of Grafana's that these dashboards use: %q", name, p.Title, p.FieldConfig.Defaults.Unit, units)
			}
			refs := make(map[string]bool)
			for _, of := range p.Targets {
				if refs[of.RefID] || of.Instant == of.Range || (p.Type == "table") != (of.Format == "table") {
					t.Errorf("%s: the panel %q has query %q twice, or one that is both instant and range, or of the wrong format", name, p.Title, of.RefID)
				}
				refs[of.RefID] = true
				if p.Type == "timeseries" && strings.HasPrefix(of.LegendFormat, "__") {
					t.Errorf("%s: the panel %q leaves its legend to Grafana, which then shows whole selectors", name, p.Title)
				}
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	for name, d := range dashboards(t) {
		ids, taken := make(map[int]bool), make(map[[2]int]string)
		for _, p := range d.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: the panel %q has the id %d, which is another's, or none", name, p.Title, p.ID)
			}
			ids[p.ID] = true
			g := p.GridPos
			if g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 || len(p.Panels) > 0 {
				t.Errorf("%s: the panel %q lies at %+v, outside of 24 columns, or holds others", name, p.Title, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Errorf("%s: the panels %q and %q lie on each other", name, other, p.Title)
						return
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
		}
	}
}

var variableName = regexp.MustCompile(`\$\{?([a-z]\w*)|\$(__[a-z_]+)`)

func TestEveryVariableIsThereAndUsed(t *testing.T) {
	t.Parallel()
	for name, d := range dashboards(t) {
		text := readText(t, filepath.Join(dashboardFolder, name))
		known := make(map[string]bool)
		for _, v := range d.Templating.List {
			if known[v.Name] || v.Label == "" || v.Description == "" {
				t.Errorf("%s: the variable %s is there twice, or has no label or description", name, v.Name)
			}
			known[v.Name] = true
			if strings.Count(text, "$"+v.Name)+strings.Count(text, "${"+v.Name) == 0 {
				t.Errorf("%s: nothing uses the variable %s", name, v.Name)
			}
			if v.IncludeAll != (v.AllValue == ".*") {
				t.Errorf("%s: All of %s is %q, want .*, which is one short regular expression and takes series without the label", name, v.Name, v.AllValue)
			}
			if v.Type == "query" {
				selector, label := v.labelValues(t)
				if !strings.HasPrefix(selector, "weir_") || label != v.Name {
					t.Errorf("%s: the variable %s has the values of %s of %s, want those of its own label, of a metric of weir's", name, v.Name, label, selector)
				}
			}
		}
		for _, m := range variableName.FindAllStringSubmatch(text, -1) {
			if m[1] != "" && !known[m[1]] {
				t.Errorf("%s uses the variable %s, which it does not have", name, m[1])
			}
		}
	}
}

// Rates of what is scraped look back four scrapes, which Grafana calculates; the history has no scrapes, and its bars must
// meet without overlapping. A bar stands where it begins, so it looks ahead.
func TestRangesAreThoseOfTheirSource(t *testing.T) {
	t.Parallel()
	ranges := regexp.MustCompile(`\[([$\w]+)\]( offset -\$__interval)?`)
	for where, of := range dashboards(t)["live.json"].expressions() {
		for _, m := range regexp.MustCompile(`rate\([^\[]*\[([^\]]+)\]`).FindAllStringSubmatch(of.Expr, -1) {
			if m[1] != "$__rate_interval" {
				t.Errorf("%s: a rate looks back %s, want $__rate_interval", where, m[1])
			}
		}
		if strings.Contains(of.Expr, "$__interval") {
			t.Errorf("%s: an $__interval may lie between two scrapes: use $__rate_interval, or a time", where)
		}
	}
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
			t.Errorf("history.json: the panel %q has the least interval %q, want 1m, the finest that is stored, or 1d", p.Title, p.Interval)
		}
	}
}

// A fleet is chosen by variables: nothing is asked of all that a Prometheus has, or of one namespace that somebody had.
func TestEveryLiveQueryIsOfTheChosenPods(t *testing.T) {
	t.Parallel()
	d := dashboards(t)["live.json"]
	chosen := map[string]string{"namespace": "N", "job": "J", "pod": "P"}
	with := substitution{values: map[string][]string{"namespace": {"N"}, "job": {"J"}, "pod": {"P"}}, all: true}
	for where, of := range d.expressions() {
		eachSelector(t, where, with.expand(d, of.Expr), func(selector *parser.VectorSelector) {
			left := maps.Clone(chosen)
			for _, m := range selector.LabelMatchers {
				if left[m.Name] == m.Value {
					delete(left, m.Name)
				}
			}
			if len(left) > 0 {
				t.Errorf("%s: %s is not of the chosen %v", where, selector, slices.Sorted(maps.Keys(left)))
			}
		})
	}
}

// The live dashboard asks for what server/stats/METRICS.md tells of, all of it, and by its labels.
func TestTheLiveDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	document := metricsDocument(t)
	d := dashboards(t)["live.json"]
	asked := make(map[string]bool)
	for where, of := range d.expressions() {
		expr := substitution{all: true}.expand(d, of.Expr)
		wantLabels(t, where, expr, document)
		for _, m := range regexp.MustCompile(`weir_\w+`).FindAllString(expr, -1) {
			metric := strings.TrimSuffix(m, "_bucket")
			if _, is := document[metric]; !is {
				t.Errorf("%s asks for %s, of which server/stats/METRICS.md does not tell", where, m)
			}
			asked[metric] = true
		}
	}
	for metric := range document {
		if !asked[metric] {
			t.Errorf("server/stats/METRICS.md tells of %s, and live.json does not show it", metric)
		}
	}
}

// Links lead to the other dashboard, to a document that is there, or to weir's page, with what the page reads.
func TestLinksOfDashboardsLeadSomewhere(t *testing.T) {
	t.Parallel()
	const repository = "https://github.com/weirproxy/weir/blob/main/"
	all := dashboards(t)
	for name, d := range all {
		links := slices.Clone(d.Links)
		for _, p := range d.Panels {
			links = append(links, p.Links...)
			for _, o := range p.FieldConfig.Overrides {
				for _, property := range o.Properties {
					var of []dashboardLink
					if property.ID == "links" && json.Unmarshal(property.Value, &of) == nil {
						links = append(links, of...)
					}
				}
			}
		}
		pages := 0
		for _, l := range links {
			path, fragment, _ := strings.Cut(l.URL, "#")
			switch {
			case strings.HasPrefix(l.URL, "/d/"):
				uid, _, _ := strings.Cut(strings.TrimPrefix(l.URL, "/d/"), "?")
				if all[strings.TrimPrefix(uid, "weir-")+".json"] == nil {
					t.Errorf("%s: the link %q leads to the dashboard %s, which the chart has not", name, l.Title, uid)
				}
			case path == "${page}/":
				pages++
				for _, part := range []string{"domain=", "&path=", "&from=${__from:date:seconds}", "&to=${__to:date:seconds}"} {
					if fragment != "" && !strings.Contains(fragment, part) {
						t.Errorf("%s: the link %q to weir's page lacks %q, by which it shows the same: %s", name, l.Title, part, l.URL)
					}
				}
			default:
				file, isDocument := strings.CutPrefix(path, repository)
				if _, err := os.Stat(filepath.Join(root, file)); err != nil || !isDocument {
					t.Errorf("%s: the link %q leads nowhere: %s (%v)", name, l.Title, l.URL, err)
				}
			}
		}
		if pages == 0 {
			t.Errorf("%s has no link to weir's page", name)
		}
	}
}

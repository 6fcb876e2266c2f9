package charttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// dashboard is what these tests read of a dashboard of Grafana.
type dashboard struct {
	ID            any
	UID, Timezone string
	SchemaVersion int
	Inputs        any `json:"__inputs"`
	Tags          []string
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []annotation }
}

type panel struct {
	ID                                 int
	Type, Title, Description, Interval string
	Targets                            []target
}

type target struct {
	RefID, Expr, Format string
	Instant, Range      bool
}

type variable struct {
	Name, Type, AllValue string
	Multi, IncludeAll    bool
	Query                json.RawMessage
}

type annotation struct {
	BuiltIn    int
	Name, Expr string
}

// expressions are all that a dashboard asks, by where it stands.
func (d *dashboard) expressions() map[string]target {
	all := make(map[string]target)
	for _, p := range d.Panels {
		for _, of := range p.Targets {
			all[fmt.Sprintf("%s, panel %d %q, query %s", d.UID, p.ID, p.Title, of.RefID)] = of
		}
	}
	for _, a := range d.Annotations.List {
		if a.BuiltIn == 0 {
			all[fmt.Sprintf("%s, annotation %q", d.UID, a.Name)] = target{Expr: a.Expr, Range: true}
		}
	}
	return all
}

var dashboardFolder = filepath.Join(chartDir, "dashboards")

// dashboards are those of the chart, by their files' names.
func dashboards(t *testing.T) map[string]*dashboard {
	t.Helper()
	all := make(map[string]*dashboard)
	files, err := filepath.Glob(filepath.Join(dashboardFolder, "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the chart has %d dashboards, %v; want live.json and history.json", len(files), err)
	}
	for _, file := range files {
		d := new(dashboard)
		if err := json.Unmarshal([]byte(readText(t, file)), d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// substitution puts values in place of a dashboard's variables, as Grafana and its Prometheus source do.
type substitution struct {
	values           map[string][]string // what has none is All, or a name that nothing has
	interval, window time.Duration       // by default a minute and an hour
}

// special are the characters that Grafana escapes in values of a variable that may have several.
var special = regexp.MustCompile(`[$^*{}\[\]'+?.()|]`)

func (s substitution) value(v variable) string {
	values := s.values[v.Name]
	switch {
	case len(values) == 0 && v.AllValue != "":
		return v.AllValue // as it is: of a regular expression nothing may be escaped
	case len(values) == 0 && v.Type == "custom":
		first, _, _ := strings.Cut(strings.Trim(string(v.Query), `"`), ",")
		return first
	case len(values) == 0:
		return "nothing"
	case !v.Multi && !v.IncludeAll:
		return strings.ReplaceAll(values[0], `\`, `\\`)
	}
	var escaped []string
	for _, value := range values {
		escaped = append(escaped, special.ReplaceAllString(strings.ReplaceAll(value, `\`, `\\\\`), `\\$0`))
	}
	if len(escaped) == 1 {
		return escaped[0]
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

func (s substitution) expand(d *dashboard, expr string) string {
	interval, window := cmp.Or(s.interval, time.Minute), cmp.Or(s.window, time.Hour)
	old := []string{"$__interval_ms", fmt.Sprint(interval.Milliseconds()), "$__interval", model.Duration(interval).String(),
		"$__range", model.Duration(window).String(), "$__rate_interval", "1m"}
	variables := slices.Clone(d.Templating.List)
	slices.SortFunc(variables, func(a, b variable) int { return len(b.Name) - len(a.Name) })
	for _, v := range variables {
		old = append(old, "${"+v.Name+"}", s.value(v), "$"+v.Name, s.value(v))
	}
	return strings.NewReplacer(old...).Replace(expr)
}

// promAPI is what answers as a Prometheus does, below this URL.
type promAPI string

func (a promAPI) client(t *testing.T) promv1.API {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: string(a)})
	if err != nil {
		t.Fatal(err)
	}
	return promv1.NewAPI(client)
}

// numbers are all that a query gives, in all of its series: at the end of a range, or in its steps, to which Grafana aligns it.
func (a promAPI) numbers(t *testing.T, expr string, in promv1.Range) (found []float64, err error) {
	t.Helper()
	var value model.Value
	if in.Step == 0 {
		value, _, _, err = a.client(t).Query(t.Context(), expr, in.End)
	} else {
		in.Start, in.End = in.Start.Truncate(in.Step), in.End.Truncate(in.Step)
		value, _, _, err = a.client(t).QueryRange(t.Context(), expr, in)
	}
	add := func(number model.SampleValue) {
		if n := float64(number); !math.IsNaN(n) && !math.IsInf(n, 0) {
			found = append(found, n)
		}
	}
	switch value := value.(type) {
	case model.Vector:
		for _, sample := range value {
			add(sample.Value)
		}
	case model.Matrix:
		for _, series := range value {
			for _, point := range series.Values {
				add(point.Value)
			}
		}
	case *model.Scalar:
		add(value.Value)
	}
	return found, err
}

// strike takes out of a dashboard's queries, by where they stand, those that give a number: at the end of a range, or in it.
func (a promAPI) strike(t *testing.T, d *dashboard, queries map[string]target, with substitution, in promv1.Range) {
	t.Helper()
	for where, of := range queries {
		asked := in
		if !of.Range {
			asked.Step = 0
		}
		expr := with.expand(d, of.Expr)
		found, err := a.numbers(t, expr, asked)
		if err != nil {
			t.Fatalf("%s: %v\n%s", where, err, expr)
		}
		if len(found) > 0 {
			delete(queries, where)
		}
	}
}

// offers are the values of a label that a variable offers.
func (a promAPI) offers(t *testing.T, label, selector string) (values []string, err error) {
	t.Helper()
	found, _, _, err := a.client(t).LabelValues(t.Context(), label, []string{selector}, time.Time{}, time.Time{})
	for _, value := range found {
		values = append(values, string(value))
	}
	return values, err
}

// wantOffers are the values that a variable offers while others are chosen, of which there must be some.
func (a promAPI) wantOffers(t *testing.T, d *dashboard, name string, chosen map[string][]string) []string {
	t.Helper()
	i := slices.IndexFunc(d.Templating.List, func(v variable) bool { return v.Name == name })
	var query struct{ Query string }
	if err := json.Unmarshal(d.Templating.List[i].Query, &query); err != nil {
		t.Fatalf("the variable %s has no query as Grafana's Prometheus source reads it: %v", name, err)
	}
	m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query.Query)
	if m == nil {
		t.Fatalf("the variable %s asks %s, want label_values(METRIC, LABEL)", name, query.Query)
	}
	values, err := a.offers(t, m[2], substitution{values: chosen}.expand(d, m[1]))
	if err != nil || len(values) == 0 {
		t.Fatalf("with %v chosen the variable %s offers %v, %v", chosen, name, values, err)
	}
	return values
}

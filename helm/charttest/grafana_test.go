package charttest

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// dashboard is what these tests read of a dashboard of Grafana.
type dashboard struct {
	ID            any
	UID, Timezone string
	SchemaVersion int
	Inputs        any `json:"__inputs"`
	Tags          []string
	Panels        []panel
	Links         []dashboardLink
	Templating    struct{ List []variable }
	Annotations   struct{ List []annotation }
}

type panel struct {
	ID                                           int
	Type, Title, Description, Interval, TimeFrom string
	Targets                                      []target
	Links                                        []dashboardLink
	FieldConfig                                  struct {
		Defaults  struct{ Unit string }
		Overrides []struct {
			Properties []struct {
				ID    string
				Value json.RawMessage
			}
		}
	}
}

type target struct {
	RefID, Expr, Format string
	Instant, Range      bool
}

type dashboardLink struct{ Title, URL string }

type variable struct {
	Name, Type, AllValue string
	Multi, IncludeAll    bool
	Query                json.RawMessage
}

type annotation struct {
	BuiltIn    int
	Name, Expr string
}

// labelValues are the metric, with its selector, and the label whose values a variable offers.
func (v variable) labelValues(t *testing.T) (selector, label string) {
	t.Helper()
	var query struct{ Query string }
	if err := json.Unmarshal(v.Query, &query); err != nil {
		t.Fatalf("the variable %s has no query as Grafana's Prometheus source reads it: %v", v.Name, err)
	}
	m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(query.Query)
	if m == nil {
		t.Fatalf("the variable %s asks %s, want label_values(METRIC, LABEL)", v.Name, query.Query)
	}
	return m[1], m[2]
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
	values       map[string][]string
	all          bool // what has no value is All, or a name that nothing has
	rateInterval string
	interval     time.Duration
	window       time.Duration
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
	interval, window, rate := s.interval, s.window, s.rateInterval
	if interval == 0 {
		interval, window, rate = time.Minute, time.Hour, "1m"
	}
	seconds := strconv.Itoa(int(window.Seconds()))
	old := []string{"$__interval_ms", strconv.FormatInt(interval.Milliseconds(), 10), "$__interval", promDuration(interval),
		"$__range_s", seconds, "$__range", seconds + "s", "$__rate_interval", rate}
	variables := slices.Clone(d.Templating.List)
	slices.SortFunc(variables, func(a, b variable) int { return len(b.Name) - len(a.Name) })
	for _, v := range variables {
		old = append(old, "${"+v.Name+"}", s.value(v), "$"+v.Name, s.value(v))
	}
	return strings.NewReplacer(old...).Replace(expr)
}

// promDuration is a step as Grafana writes it: 1m, 6h, 1d.
func promDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d%day == 0:
		return fmt.Sprint(int64(d/day), "d")
	case d%time.Hour == 0:
		return fmt.Sprint(int64(d/time.Hour), "h")
	case d%time.Minute == 0:
		return fmt.Sprint(int64(d/time.Minute), "m")
	}
	return fmt.Sprint(int64(d/time.Second), "s")
}

// promAPI is what answers as a Prometheus does, below this URL.
type promAPI string

// asks posts a form, as Grafana's source does, and reads the data of the answer.
func (a promAPI) asks(t *testing.T, path string, form url.Values, data any) error {
	t.Helper()
	answer, err := http.PostForm(string(a)+path, form)
	if err != nil {
		return err
	}
	return readPrometheus(answer, data)
}

func readPrometheus(answer *http.Response, data any) error {
	defer answer.Body.Close()
	var read struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&read); err != nil {
		return fmt.Errorf("the answer %s is no JSON: %w", answer.Status, err)
	}
	if read.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, read.Error)
	}
	return json.Unmarshal(read.Data, data)
}

// finds reports whether a query of a dashboard gives a number, in a range that ends at a time.
func (a promAPI) finds(t *testing.T, of target, expr string, from, to time.Time, step time.Duration) (bool, error) {
	t.Helper()
	path, form := "/api/v1/query", url.Values{"query": {expr}, "time": {unix(to)}}
	if of.Range { // as Grafana aligns ranges, in UTC
		path, form = "/api/v1/query_range", url.Values{"query": {expr}, "start": {unix(from.Truncate(step))},
			"end": {unix(to.Truncate(step))}, "step": {strconv.Itoa(int(step.Seconds()))}}
	}
	found, err := a.numbers(t, path, form)
	return len(found) > 0, err
}

func unix(when time.Time) string { return strconv.FormatInt(when.Unix(), 10) }

// numbers are all that an answer has, in all of its series.
func (a promAPI) numbers(t *testing.T, path string, form url.Values) (found []float64, err error) {
	t.Helper()
	var data struct {
		Result []struct {
			Value  []any
			Values [][]any
		}
	}
	if err := a.asks(t, path, form, &data); err != nil {
		return nil, err
	}
	for _, series := range data.Result {
		for _, point := range append(series.Values, series.Value) {
			if len(point) != 2 {
				continue
			}
			if number, err := strconv.ParseFloat(fmt.Sprint(point[1]), 64); err == nil && !math.IsNaN(number) && !math.IsInf(number, 0) {
				found = append(found, number)
			}
		}
	}
	return found, nil
}

// offers are the values of a label that a variable offers.
func (a promAPI) offers(t *testing.T, label, selector string) (values []string, err error) {
	t.Helper()
	answer, err := http.Get(string(a) + "/api/v1/label/" + label + "/values?" + url.Values{"match[]": {selector}}.Encode())
	if err != nil {
		return nil, err
	}
	return values, readPrometheus(answer, &values)
}

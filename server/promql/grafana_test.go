package promql_test

import (
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// Its requests are those of grafana/grafana's pkg/promlib at 24d6880 and public/app/plugins/datasource/prometheus.

// formatted is a moment as Grafana writes it.
func formatted(at int64) string { return strconv.FormatFloat(float64(at), 'f', -1, 64) }

func TestGrafanaFindsItsDataSourceHealthy(t *testing.T) {
	w := serve(t, keeping(t, nil))
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		a := ask(t, w.address, method, "api/v1/query", values("query", "1+1", "time", "4"))
		want := map[string]any{"resultType": "scalar", "result": []any{4., "2"}}
		if a.Code != 200 || a.Status != "success" || !reflect.DeepEqual(a.Data, want) {
			t.Errorf("%s 1+1 at time=4: %+v, want %v: Save & test asks that, whatever the history holds", method, a, want)
		}
	}
	info := w.get("api/v1/status/buildinfo")
	data, _ := info.Data.(map[string]any)
	for name, v := range data {
		if _, text := v.(string); !text {
			t.Errorf("buildinfo's %s is %v, want a string: Grafana reads no other", name, v)
		}
	}
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	// Clients choose by the version what they ask: Prometheus 3.16.0 is v0.316.0 as a module.
	_, rest, _ := strings.Cut(string(text), "github.com/prometheus/prometheus v0.3")
	version, _, _ := strings.Cut(rest, "\n")
	if data["application"] != "weir" || len(version) < 3 || data["version"] != "3."+strings.TrimPrefix(version, "0") || data["features"] != nil {
		t.Errorf("buildinfo is %v, want application weir, the engine's version (of v0.3%s), and no features: with features it would "+
			"be taken for Mimir", data, version)
	}
}

// What only takes GET is asked by POST first, and by GET once that is refused.
func TestGETOnlyPathsRefusePOST(t *testing.T) {
	w := serve(t, keeping(t, nil))
	for _, path := range []string{"status/buildinfo", "metadata", "rules", "alerts", "targets", "label/domain/values"} {
		if a := w.post("api/v1/" + path); a.Code != http.StatusMethodNotAllowed || a.Header.Get("Allow") == "" {
			t.Errorf("POST %s: %+v, want 405, so that Grafana goes on to GET", path, a)
		}
		if a := w.get("api/v1/" + path); a.Code != 200 || a.Status != "success" {
			t.Errorf("GET %s: %+v", path, a)
		}
	}
}

// The variables of dashboards, and the builder of queries.
func TestGrafanasVariablesAreFilled(t *testing.T) {
	w := serve(t, keeping(t, someHours(3)))
	span := []string{"start", formatted(someday.Unix() - hour), "end", formatted(someday.Unix())}
	with := func(more ...string) []string { return append(append([]string{}, span...), more...) }
	for _, c := range []struct {
		what, path string
		parameters []string
		want       []any
	}{
		{"domains", "label/domain/values", with("match[]", "weir_hits_total"), []any{"shop"}},
		{"domains of any", "label/domain/values", with(), []any{"mail", "shop"}},
		{"paths of a domain", "label/path/values", with("match[]", `weir_hits_total{domain="shop"}`), []any{"user", "user/path=%2Fpay"}},
		{"paths of two selectors", "label/path/values", with("match[]", `weir_near_hits_total`, "match[]", `{path="user"}`),
			[]any{"sender", "user"}},
		{"metrics", "label/__name__/values", with("limit", "40000"), []any{"weir_hits_peak", "weir_hits_total", "weir_near_hits_total"}},
		{"labels", "labels", with("match[]", `weir_near_hits_total`), []any{"__name__", "domain", "path", "value"}},
		{"a label that nothing has", "label/pod/values", with(), []any{}},
	} {
		if a := w.get("api/v1/"+c.path, c.parameters...); a.Code != 200 || !reflect.DeepEqual(a.Data, c.want) || a.Warnings != nil {
			t.Errorf("%s: %+v, want %v", c.what, a, c.want)
		}
	}
	a := w.post("api/v1/series", with("match[]", `{__name__="weir_hits_total",outcome="over"}`)...)
	want := []any{map[string]any{"__name__": "weir_hits_total", "domain": "shop", "path": "user", "outcome": "over"}}
	if a.Code != 200 || !reflect.DeepEqual(a.Data, want) {
		t.Errorf("series: %+v, want %v", a, want)
	}
	if a := w.get("api/v1/metadata", "limit", "1"); len(a.Data.(map[string]any)) != 4 {
		t.Errorf("metadata: %+v, want the four metrics", a)
	}
	a = w.get("api/v1/query", "query", "weir_hits_total", "limit", "-1", "timeout", "soon", "lookback_delta", "1")
	if a.Code != 200 || a.Warnings != nil {
		t.Errorf("with parameters of Prometheus's that weir has no use for: %+v, want an answer", a)
	}
	exemplars := url.Values{"query": {"weir_hits_total"}, "start": {"1"}, "end": {"2"}}
	if a := ask(t, w.address, http.MethodPost, "api/v1/query_exemplars", exemplars); !reflect.DeepEqual(a.Data, []any{}) {
		t.Errorf("exemplars: %+v, want none", a)
	}
}

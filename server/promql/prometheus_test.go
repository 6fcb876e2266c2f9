package promql_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/history"
)

// openMetrics writes the counts of the series within and over, at the beginning of each minute that has a hit in some
// series, and after the last one.
func openMetrics(all []history.Increment) string {
	var b strings.Builder
	b.WriteString("# TYPE weir_hits counter\n")
	for _, id := range []history.ID{sparse, busy} {
		total, minutes := uint64(0), make(map[int64]uint64)
		for _, i := range all {
			if i.ID == id {
				minutes[i.Minute] = i.Hits
			}
		}
		first, last := all[0].Minute, all[len(all)-1].Minute
		for minutes[first] == 0 { // a series begins with its first hit
			first++
		}
		for m := first; m <= last; m++ {
			fmt.Fprintf(&b, "weir_hits_total{domain=%q,path=%q,outcome=%q} %d %d\n", id.Domain, id.Path, id.Outcome, total, m*minute)
			total += minutes[m]
		}
	}
	return b.String() + "# EOF\n"
}

func TestAnswersMatchPrometheus(t *testing.T) {
	var all []history.Increment
	for _, i := range someHours(6) {
		if i.ID.Value == "" {
			all = append(all, i)
		}
	}
	real, w := process.PrometheusOver(t, openMetrics(all)), serve(t, keeping(t, all))
	border := someday.Unix() / minute * minute
	at, span := formatted(border-hour), []string{"start", formatted(border - 3*hour), "end", formatted(border - hour)}
	both := func(path string, parameters ...string) {
		t.Helper()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if method == http.MethodPost && strings.HasPrefix(path, "label/") {
				continue
			}
			want := ask(t, real, method, "api/v1/"+path, values(parameters...))
			got := ask(t, w.address, method, "api/v1/"+path, values(parameters...))
			same := got.Code == want.Code && got.Status == want.Status && got.ErrorType == want.ErrorType
			if want.Status == "success" && !reflect.DeepEqual(got.Data, want.Data) || !same {
				t.Errorf("%s %s %q:\ngot  %d %s %s %s %v\nwant %d %s %s %s %v, as a Prometheus answers", method, path, parameters,
					got.Code, got.Status, got.ErrorType, got.Error, short(got.Data), want.Code, want.Status, want.ErrorType, want.Error, short(want.Data))
			}
		}
	}
	const hits = `weir_hits_total`
	for _, query := range []string{"1+1", `"text"`, "time()", "1/0", "-1/0", "0/0", "1e-7", "1e21", "0.1+0.2", "vector(0)/0", "vector(1)>2",
		hits, hits + `{outcome="over"}`, hits + `{path=~".*pay.*"}`, hits + `{path="user/path=%2Fpay"}`, hits + " offset 1h", hits + " @ " + at,
		"sum(" + hits + ")", "sum by (domain) (" + hits + ")", "topk(1, " + hits + ")", "count(" + hits + ") by (outcome)",
		"timestamp(" + hits + `{outcome="within"})`, "absent(" + hits + ")", `absent(weir_hits_total{path="none"})`, "none",
		hits + `{outcome="within"}[150s]`, "scalar(sum(" + hits + "))", "sort_desc(" + hits + ")",
		hits + "{", "sum(", hits + " + on() " + hits, "rate(1)", "{}", "@",
		"histogram_quantile(0.9, " + hits + ")"} {
		both("query", "query", query, "time", at)
		both("query_range", append([]string{"query", query, "step", "60"}, span...)...)
	}
	both("query", "query", "1+1", "time", "4")
	both("query", "query", hits, "time", formatted(border+hour))
	both("query", "query", hits, "time", "soon")
	both("query_range", "query", hits, "start", at, "end", "0", "step", "60")
	both("query_range", "query", hits, "start", "0", "end", at, "step", "1")
	both("query_range", "query", hits, "start", "0", "end", at, "step", "0")
	both("query_range", "query", hits, "start", "2026-11-23T08:00:00Z", "end", "2026-11-23T09:00:00Z", "step", "15m")
	both("query_range", "query", hits, "start", "2026-11-23T08:00:00.123+05:30", "end", "2026-11-23T09:00:00.5+05:30", "step", "1h30m")
	both("query_range", append([]string{"query", "vector(1)", "step", "0.25"}, "start", "1.5", "end", "3.125")...)
	for _, match := range []string{hits, hits + `{outcome="over"}`, `{__name__=~"weir_.*_total"}`, "none", "{}", "{"} {
		both("series", append(span, "match[]", match)...)
		both("labels", append(span, "match[]", match)...)
		both("label/path/values", append(span, "match[]", match)...)
	}
	both("series", append(span, "match[]", hits+`{outcome="over"}`, "match[]", hits+`{outcome="within"}`)...)
	both("labels", append(span, "match[]", hits, "match[]", "none")...)
	both("series")
	both("query_exemplars", append(span, "query", hits)...)
	for _, path := range []string{"rules", "alerts", "targets", "alertmanagers"} {
		got, want := w.get("api/v1/"+path), ask(t, real, http.MethodGet, "api/v1/"+path, nil)
		if want.Code != 200 || !subset(got.Data, want.Data) && !reflect.DeepEqual(got.Data, want.Data) {
			t.Errorf("%s: got %v, want %v, as a Prometheus that has none answers", path, got.Data, want.Data)
		}
	}
}

func short(data any) string {
	text := fmt.Sprint(data)
	return text[:min(len(text), 1000)]
}

// subset reports whether all names of an object are in another with the same values.
func subset(a, b any) bool {
	all, isObject := b.(map[string]any)
	some, _ := a.(map[string]any)
	for name, v := range some {
		if other, there := all[name]; there && !reflect.DeepEqual(v, other) {
			return false
		}
	}
	return isObject && len(some) > 0
}

package promql_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/promql"
)

const tooMany = "query processing would load too many samples into memory in query execution"

// Codes and types of errors are compared with a real Prometheus; its words, which change with its version, stand here.
func TestErrorsUsePrometheusWords(t *testing.T) {
	w := serve(t, keeping(t, someHours(2)))
	now := formatted(someday.Unix())
	span := func(query, start, end, step string) []string {
		return []string{"query", query, "start", start, "end", end, "step", step}
	}
	for _, c := range []struct {
		path       string
		parameters []string
		code       int
		kind, text string
	}{
		{"query", []string{"query", "weir_hits_total{"}, 400, "bad_data",
			`invalid parameter "query": 1:17: parse error: unexpected end of input inside braces`},
		{"query", []string{"query", "up", "time", "soon"}, 400, "bad_data",
			`invalid parameter "time": cannot parse "soon" to a valid timestamp`},
		{"query", []string{"query", "up", "time", "NaN"}, 400, "bad_data",
			`invalid parameter "time": cannot parse "NaN" to a valid timestamp`},
		{"query", []string{"query", "weir_hits_total + on() weir_hits_total"}, 422, "execution", "found duplicate series for the match group"},
		{"query_range", span("up", "0", "1", "0"), 400, "bad_data",
			`invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer`},
		{"query_range", span("up", "0", "1", "1e-9"), 400, "bad_data", `invalid parameter "step": zero or negative`},
		{"query_range", span("up", "0", "1", "1e99"), 400, "bad_data", `It overflows int64`},
		{"query_range", span("up", "-9223309901257974", "9223309901257974", "3600"), 400, "bad_data", "exceeded maximum resolution of 11,000 points"},
		{"query_range", span(`count_over_time(vector(1)[1000d:1s])`, now, now, "1"), 422, "execution", tooMany},
		{"series", []string{"match[]", "{}"}, 400, "bad_data", "match[] must contain at least one non-empty matcher"},
		{"label/%FF/values", nil, 400, "bad_data", "invalid label name"},
		{"read", nil, 404, "not_found", "/prometheus/api/v1/read"},
		{"admin/tsdb/delete_series", nil, 404, "not_found", "delete_series"},
	} {
		a := w.get("api/v1/"+c.path, c.parameters...)
		if a.Code != c.code || a.Status != "error" || a.ErrorType != c.kind || !strings.Contains(a.Error, c.text) {
			t.Errorf("%s %v: %+v, want %d, %s: %s", c.path, c.parameters, a, c.code, c.kind, c.text)
		}
	}
}

func TestAnyTimeCanBeQueried(t *testing.T) {
	w := serve(t, keeping(t, someHours(2)))
	for _, at := range []string{"0", "-1", "4", "1e12", "9223309901257974", "-9223309901257974", "2026-11-23T10:00:00.5+05:30"} {
		for _, query := range []string{"1+1", "weir_hits_total", "increase(weir_hits_total[5m])", "weir_hits_total offset -1000d",
			"weir_hits_peak @ start()", "max_over_time(weir_hits_total[1h:1m])"} {
			if a := w.get("api/v1/query", "query", query, "time", at); a.Code != 200 {
				t.Errorf("%s at %s: %+v, want an answer, be it empty", query, at, a)
			}
		}
	}
}

func TestHugeBodyIsNotRead(t *testing.T) {
	w := serve(t, keeping(t, nil))
	left := io.LimitedReader{R: rand.Reader, N: 100 << 20}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.address+"/api/v1/query", io.MultiReader(&left))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answered := httptest.NewRecorder()
	w.handler.ServeHTTP(answered, r)
	if answered.Code != 400 || !strings.Contains(answered.Body.String(), "request body too large") {
		t.Errorf("%d %s, want 400 and that the body is too large", answered.Code, answered.Body)
	}
	if left.N < 99<<20 {
		t.Errorf("%d of 100 MB of the body are left, want all but what the bound takes", left.N>>20)
	}
	if a := w.get("api/v1/query", "query", strings.Repeat("0+", 300_000)+"0"); a.Code < 400 {
		t.Errorf("a URL of 600 kB: %+v, want an error", a)
	}
}

// hanging is a history that answers nobody.
type hanging struct {
	history.Store
	asked atomic.Int64 // queries
}

func (h *hanging) Query(ctx context.Context, _ history.Query, _ func(history.Series) error) error {
	h.asked.Add(1)
	<-ctx.Done()
	return ctx.Err()
}

// weighed counts what is read of all bodies.
type weighed struct {
	io.Reader
	read *atomic.Int64
}

func (b weighed) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.read.Add(int64(n))
	return n, err
}

func TestConcurrentRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, atATime, form = 1000, 3, "query=weir_hits_total"
		store := &hanging{}
		h := newHandler(store, func(c *promql.Config) { c.Concurrency = atATime })
		var read atomic.Int64
		answers := make(chan *httptest.ResponseRecorder, requests)
		ctx, hangUp := context.WithCancel(t.Context())
		post := func(ctx context.Context, form string) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/prometheus/api/v1/query", weighed{strings.NewReader(form), &read})
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			answers <- w
		}
		for range requests {
			go post(ctx, form)
		}
		synctest.Wait()
		if store.asked.Load() != atATime || read.Load() != atATime*int64(len(form)) {
			t.Errorf("%d queries run at a time, and %d bytes of parameters are in memory, want those of %d: waiting ones hold none",
				store.asked.Load(), read.Load(), atATime)
		}
		for range requests - atATime {
			if w := <-answers; w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Fatalf("after half a minute without a turn: %d %s, want 503 with Retry-After", w.Code, w.Body)
			}
		}
		hangUp()
		for range atATime {
			if w := <-answers; w.Code != 499 {
				t.Errorf("one whose client hung up: %d %s, want 499", w.Code, w.Body)
			}
		}
		post(t.Context(), "query=1")
		if w := <-answers; w.Code != http.StatusOK {
			t.Errorf("after clients that hung up: %d %s, want an answer: their turns must have come back", w.Code, w.Body)
		}
	})
}

// Lists of names read the whole history as well.
func TestTimeoutsAnswerLikePrometheus(t *testing.T) {
	w := serve(t, &hanging{}, func(c *promql.Config) { c.Timeout = time.Millisecond })
	for _, path := range []string{"query", "labels", "label/path/values", "series"} {
		a := w.get("api/v1/"+path, "match[]", "weir_hits_total", "query", "weir_hits_total")
		if a.Code != 503 || a.ErrorType != "timeout" || !strings.HasPrefix(a.Error, "query timed out in") {
			t.Errorf("%s of a store that does not answer: %+v, want 503 timeout: query timed out in ...: it has the only turn", path, a)
		}
	}
}

// What a text may be is proven in the engine; selectors come to the parser by another way.
func TestSelectorsAreBoundedLikeQueries(t *testing.T) {
	w := serve(t, keeping(t, nil))
	var many []string
	for range 4000 {
		many = append(many, "match[]", `{a="b"}`)
	}
	pattern := `{a=~"` + strings.Repeat("b{1000}", 1000) + `"}`
	for text, parameters := range map[string][]string{"tokens": many, "patterns": {"match[]", "a # b", "match[]", pattern}} {
		if a := w.post("api/v1/series", parameters...); a.Code != 400 || a.ErrorType != "bad_data" || !strings.Contains(a.Error, text) {
			t.Errorf("%d %s, %.200s, want 400 and that it has too many %s", a.Code, a.ErrorType, a.Error, text)
		}
	}
	if a := w.post("api/v1/series", "match[]", `a{b="c"}`, "match[]", "d # e", "match[]", "{f=~'g{3}|h'}"); a.Code != 200 {
		t.Errorf("three selectors: %+v, want an answer", a)
	}
}

package e2e_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// query returns the value of a query whose answer is one number, as Prometheus's API gives it.
func query(w *weirtest.Weir, query string) (string, error) {
	var a struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	err := weirtest.GetJSON(w.Admin+"/prometheus/api/v1/query?query="+url.QueryEscape(query), &a)
	if err != nil || len(a.Data.Result) != 1 {
		return "", fmt.Errorf("%s is answered with %+v (%w), want one number", query, a, err)
	}
	return fmt.Sprint(a.Data.Result[0].Value[1]), nil
}

// wantAnswers asks paths of an admin port, and wants each answered so.
func wantAnswers(t *testing.T, w *weirtest.Weir, paths map[string]wanted) {
	t.Helper()
	for path, c := range paths {
		body, code, err := weirtest.Fetch(w.Admin + path)
		if err != nil || code != c.code || len(c.want) > 0 && !strings.Contains(body, c.want[0]) {
			t.Errorf("GET %s is answered %d %s (%v), want %d and %q", path, code, body, err, c.code, c.want)
		}
	}
}

// Two weirs of a fleet count; a third process, which may only read, answers for both. With the files of the fleet it
// knows the same rules, also after they have changed.
func TestReadOnlyProcessServesTheFleetsHistory(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.WithPassword("secret"), redistest.WithACL("reader", "secret",
		"~weir:*", "+evalsha", "+get", "+hgetall", "+ping", "+script|load", "+time", "+zscan"))
	fleet := []string{"REDIS_URL=" + redis.Addr, "REDIS_AUTH=secret", weirtest.PatientRedis, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s"}
	a, b := weirtest.Serve(t, tenAnHour, fleet...), weirtest.Serve(t, tenAnHour, fleet...)
	for n, w := range []*weirtest.Weir{a, b} {
		awaitCounts(t, w.Client(t), "basic/1")
		hits(t, w.Client(t), 15, "basic/1", fmt.Sprint("user", n))
	}
	reader := weirtest.New(t, weirtest.PatientRedis, "REDIS_HISTORY_URL=redis://reader:secret@"+redis.Addr)
	reader.Start(t, process.Weir(t), "history", "serve")
	reader.AwaitReady(t)
	for _, at := range []*weirtest.Weir{reader, a} {
		weirtest.Eventually(t, "the hits of both are in the answer", func() error {
			for text, want := range map[string]string{
				`sum(weir_hits_total{outcome="within"})`:                          "20",
				`sum(weir_hits_total{path="plan=basic%2F1/user",outcome="over"})`: "10",
			} {
				if got, err := query(at, text); err != nil || got != want {
					return fmt.Errorf("%s is %s, want %s (%w)", text, got, want, err)
				}
			}
			return nil
		})
	}
	limitsNothing := wanted{code: 404, want: []string{"weir history serve has no denials or counters: ask a weir serve."}}
	wantAnswers(t, reader, map[string]wanted{
		"/livez": {code: 200}, "/readyz": {code: 200},
		"/api/v1/history/top":  {code: 200, want: []string{`"total":30`}},
		"/metrics":             {code: 200},
		"/api/v1/counters/top": limitsNothing, "/api/v1/denials": limitsNothing, "/rlconfig": {code: 404}, "/json": {code: 404},
		"/prometheus/api/v1/nothing": {code: 404},
	})
	if body, err := weirtest.Get(reader.Admin + "/metrics"); err != nil || strings.Contains(body, "weir_requests_total") {
		t.Errorf("/metrics (%v) tells of requests, and none comes here:\n%s", err, body)
	}
	reader.Drain(t)
	reader.Start(t, process.Weir(t), "history", "serve", "--config", a.Config)
	reader.AwaitReady(t)
	for _, limit := range []string{"10", "12"} {
		a.Configure(t, strings.ReplaceAll(tenAnHour, "requests_per_unit: 10", "requests_per_unit: "+limit))
		weirtest.Eventually(t, "the reader knows the limit "+limit, func() error {
			got, err := query(reader, `sum(weir_limit_requests)`)
			if err == nil && got != limit {
				err = fmt.Errorf("it is %s", got)
			}
			return err
		})
	}
	refused, err := redis.Client().Do(t.Context(), "acl", "log").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis has refused commands of the reader: %v (%v)", refused, err)
	}
}

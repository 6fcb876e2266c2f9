package e2e_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// startReader runs weir history serve over a Redis, and waits until a URL of its port answers so.
func startReader(t *testing.T, redis, ready string, status int, flags ...string) *weirtest.Weir {
	t.Helper()
	reader := weirtest.New(t, weirtest.PatientRedis, "REDIS_HISTORY_URL="+redis)
	reader.Start(t, append([]string{process.Weir(t), "history", "serve"}, flags...)...)
	reader.Process.AwaitReady(t, func() error { return weirtest.WantStatus(reader.Admin+ready, status) })
	return reader
}

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

// Two weirs of a fleet count; a third process, which may only read, answers for both.
func TestTheHistoryOfAFleetIsServedByAProcessThatOnlyReads(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.WithPassword("secret"), redistest.WithACL("reader", "secret",
		"~weir:*", "+evalsha", "+get", "+hgetall", "+ping", "+script|load", "+time", "+zscan"))
	fleet := []string{"REDIS_URL=" + redis.Addr, "REDIS_AUTH=secret", weirtest.PatientRedis, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s"}
	a, b := weirtest.Serve(t, tenAnHour, fleet...), weirtest.Serve(t, tenAnHour, fleet...)
	for n, w := range []*weirtest.Weir{a, b} {
		awaitCounts(t, w.Client(t), "basic/1")
		hits(t, w.Client(t), 15, "basic/1", fmt.Sprint("user", n))
	}
	reader := startReader(t, "redis://reader:secret@"+redis.Addr, "/readyz", 200)
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
	wantAnswers(t, reader, map[string]wanted{
		"/livez": {code: 200}, "/readyz": {code: 200},
		"/api/v1/history/top": {code: 200, want: []string{`"total":30`}},
		"/metrics":            {code: 200},
		"/api/v1/counters":    {code: 404}, "/rlconfig": {code: 404}, "/json": {code: 404}, // it counts nothing
		"/prometheus/api/v1/nothing": {code: 404},
	})
	if body, err := weirtest.Get(reader.Admin + "/metrics"); err != nil || strings.Contains(body, "weir_requests_total") {
		t.Errorf("/metrics (%v) tells of requests, and none comes here:\n%s", err, body)
	}
	refused, err := redis.Client().Do(t.Context(), "acl", "log").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis has refused commands of the reader: %v (%v)", refused, err)
	}
	reader.Drain(t)
}

func TestAHistoryThatCannotBeServedIsAClearError(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, tenAnHour)
	_, port, _ := strings.Cut(strings.TrimPrefix(w.Admin, "http://"), ":")
	plain := filepath.Join(w.Config, "shop.yaml")
	const nobody = "REDIS_HISTORY_URL=127.0.0.1:1"
	for _, c := range []struct {
		what  string
		env   []string
		flags []string
		want  string
	}{
		{"a history in a file", []string{"DATA_DIR=" + t.TempDir()}, nil, "belongs to its weir serve, which answers these queries on its own admin port"},
		{"a taken port", []string{nobody, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port}, nil,
			"address already in use (DEBUG_HOST and DEBUG_PORT say where)"},
		{"a bound that is none", []string{nobody, "HISTORY_QUERY_CONCURRENCY=-1"}, nil, "HISTORY_QUERY_CONCURRENCY=-1: use 0 to 100"},
		{"a Redis that is none", []string{"REDIS_HISTORY_URL=http://x"}, nil, "REDIS_HISTORY_URL"},
		{"a folder that is missing", []string{nobody}, []string{"--config", "/nowhere"}, "/nowhere: no such file or directory"},
		{"a folder that is none", []string{nobody}, []string{"--config", plain}, plain + " is no directory"},
	} {
		printed, code := process.Command(t, c.env, process.Weir(t), append([]string{"history", "serve"}, c.flags...)...)
		if code != 2 || !strings.Contains(printed, c.want) {
			t.Errorf("%s: exit code %d, printed\n%s\nwant 2, and %q", c.what, code, printed, c.want)
		}
	}
}

func TestAReaderWithoutItsRedisIsNotReadyAndOneWithoutFilesOutlivesSIGHUP(t *testing.T) {
	t.Parallel()
	reader := startReader(t, process.Addr(t), "/livez", 200)
	wantAnswers(t, reader, map[string]wanted{
		"/readyz": {code: 503},
		"/prometheus/api/v1/query?query=1%2B1&time=4":    {code: 200},
		"/prometheus/api/v1/query?query=weir_hits_total": {code: 500, want: []string{"connection refused"}},
		"/api/v1/rules": {code: 200, want: []string{`"serves":["history"],"rules":[]`}},
	})
	reader.Signal(t, syscall.SIGHUP)
	reader.Says(t, "SIGHUP changes nothing")
}

func TestQueriesCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"HISTORY_QUERY=false", "HISTORY=false"} {
		w := weirtest.Serve(t, tenAnHour, setting)
		wantAnswers(t, w, map[string]wanted{"/prometheus/api/v1/query?query=1%2B1": {code: 404}})
	}
}

// The reader has the files of the fleet: it knows the same rules and limits, also after files have changed.
func TestAReaderWithTheFilesOfAFleetKnowsItsRules(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	w := weirtest.Serve(t, tenAnHour, "REDIS_URL="+redis.Addr, weirtest.PatientRedis, "DRAIN_DELAY=0s")
	reader := startReader(t, redis.Addr, "/readyz", 200, "--config", w.Config)
	sameRules := func(limit string) {
		t.Helper()
		weirtest.Eventually(t, "the reader knows the rules of weir, with the limit "+limit, func() error {
			want, err := weirtest.Get(w.Admin + "/rlconfig")
			if err != nil {
				return err
			}
			if got, err := weirtest.Get(reader.Admin + "/rlconfig"); err != nil || got != want {
				return fmt.Errorf("the rules are\n%s (%w), want those of weir serve:\n%s", got, err, want)
			}
			for _, at := range []*weirtest.Weir{reader, w} {
				if got, err := query(at, `sum(weir_limit_requests)`); err != nil || got != limit {
					return fmt.Errorf("the limit is %s (%w), want %s", got, err, limit)
				}
			}
			return nil
		})
	}
	sameRules("10")
	w.Configure(t, strings.ReplaceAll(tenAnHour, "requests_per_unit: 10", "requests_per_unit: 12"))
	sameRules("12")
	if err := os.WriteFile(filepath.Join(w.Config, "mail.yaml"), []byte("domain: mail\nno_such_key: 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reader.Says(t, "level=ERROR", "no_such_key")
	sameRules("12") // a broken file breaks its own domain alone
	reader.Signal(t, syscall.SIGHUP)
	reader.Says(t, "as SIGHUP asks")
	sameRules("12")
	reader.Drain(t)
}

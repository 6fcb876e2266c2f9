package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// fetch returns what a URL answers, and its status.
func fetch(address string) (string, int, error) {
	response, err := http.Get(address)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), response.StatusCode, err
}

// instant returns the value of a query whose answer is one number, as Prometheus's API at an address gives it.
func instant(address, query string) (string, error) {
	body, code, err := fetch(address + "/prometheus/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return "", err
	}
	var a struct {
		Data struct {
			Result []struct{ Value []any }
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || code != http.StatusOK || len(a.Data.Result) != 1 {
		return "", fmt.Errorf("%s is answered with %d %s (%v), want one number", query, code, body, err)
	}
	return fmt.Sprint(a.Data.Result[0].Value[1]), nil
}

const tenAnHour = `
- key: plan
  value: basic/1
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 10 }
`

// Two weirs of a fleet count; a third process, which may only read, answers for both.
func TestTheHistoryOfAFleetIsServedByAProcessThatOnlyReads(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t, redistest.WithPassword("secret"), redistest.WithACL("reader", "secret",
		"~weir:*", "+evalsha", "+get", "+hgetall", "+ping", "+script|load", "+time", "+zscan"))
	fleet := []string{"REDIS_URL=" + redis.Addr, "REDIS_AUTH=secret", "REDIS_TIMEOUT=10s", "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s"}
	a, b := startWeir(t, tenAnHour, fleet...), startWeir(t, tenAnHour, fleet...)
	for n, w := range []*weir{a, b} {
		c := w.client(t)
		for range 15 {
			if _, err := c.hit("basic/1", fmt.Sprint("user", n)); err != nil {
				t.Fatalf("asking weir: %v", err)
			}
		}
	}
	port := process.Port(t)
	env := []string{"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", port), "REDIS_TIMEOUT=10s",
		"REDIS_HISTORY_URL=redis://reader:secret@" + redis.Addr}
	reader := process.Start(t, "weir history serve", env, weirBinary, "history", "serve")
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	reader.AwaitReady(t, func() error { return wantStatus(address+"/readyz", 200) })

	for _, at := range []string{address, a.admin} {
		eventually(t, "the hits of both are in the answer of "+at, func() error {
			for query, want := range map[string]string{
				`sum(weir_hits_total{outcome="within"})`:                          "20",
				`sum(weir_hits_total{path="plan=basic%2F1/user",outcome="over"})`: "10",
			} {
				if got, err := instant(at, query); err != nil || got != want {
					return fmt.Errorf("%s is %s, want %s (%v)", query, got, want, err)
				}
			}
			return nil
		})
	}
	if got, err := instant(a.admin, `sum(weir_limit_requests)`); err != nil || got != "10" {
		t.Errorf("the limit in force is %s (%v), want 10", got, err)
	}
	for path, want := range map[string]string{
		"/livez": "OK", "/api/v1/history/top": `"total":30`, "/prometheus/-/ready": "OK", "/prometheus/-/healthy": "OK",
		"/metrics": `weir_history_queries_total{result="ok"}`,
	} {
		if body, code, err := fetch(address + path); err != nil || code != 200 || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d %s (%v), want %s", path, code, body, err, want)
		}
	}
	for path, want := range map[string]int{"/api/v1/counters": 404, "/rlconfig": 404, "/prometheus/api/v1/nothing": 404, "/json": 404} {
		if body, code, err := fetch(address + path); err != nil || code != want {
			t.Errorf("GET %s: %d %s (%v), want %d: it counts nothing", path, code, body, err, want)
		}
	}
	if body, _, _ := fetch(address + "/metrics"); strings.Contains(body, "weir_requests_total") || strings.Contains(body, "weir_limit_requests") {
		t.Errorf("/metrics tells of requests, and none comes here:\n%s", body)
	}
	refused, err := redis.Client().Do(t.Context(), "acl", "log").Slice()
	if err != nil || len(refused) > 0 {
		t.Errorf("Redis has refused commands of the reader: %v (%v)", refused, err)
	}
	reader.Terminate(t)
	if code := reader.ExitCode(t); code != 0 {
		t.Errorf("SIGTERM ends it with %d, want 0\n%s", code, reader.Log.String())
	}
}

func TestAHistoryThatCannotBeServedIsAClearError(t *testing.T) {
	t.Parallel()
	w := startWeir(t, tenAnHour)
	_, port, _ := strings.Cut(strings.TrimPrefix(w.admin, "http://"), ":")
	for _, c := range []struct {
		what string
		env  []string
		want string
	}{
		{"a history in a file", []string{"DATA_DIR=" + w.data}, "belongs to its weir serve, which answers these queries on its own admin port"},
		{"a taken port", []string{"REDIS_HISTORY_URL=127.0.0.1:1", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port}, "address already in use (DEBUG_HOST and DEBUG_PORT say where)"},
		{"a bound that is none", []string{"REDIS_HISTORY_URL=127.0.0.1:1", "HISTORY_QUERY_CONCURRENCY=-1"}, "HISTORY_QUERY_CONCURRENCY=-1: use 0 to 100"},
		{"a Redis that is none", []string{"REDIS_HISTORY_URL=http://x"}, "REDIS_HISTORY_URL"},
	} {
		p := process.Start(t, "weir history serve", c.env, weirBinary, "history", "serve")
		if code := p.ExitCode(t); code != 2 || !strings.Contains(p.Log.String(), c.want) {
			t.Errorf("%s: exit code %d, printed\n%s\nwant 2, and %q", c.what, code, p.Log.String(), c.want)
		}
	}
}

func TestAReaderWithoutItsRedisIsNotReady(t *testing.T) {
	t.Parallel()
	port := process.Port(t)
	p := process.Start(t, "weir history serve", []string{"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", port),
		fmt.Sprint("REDIS_HISTORY_URL=127.0.0.1:", process.Port(t))}, weirBinary, "history", "serve")
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	p.AwaitReady(t, func() error { return wantStatus(address+"/livez", 200) })
	for path, want := range map[string]int{"/readyz": 503, "/prometheus/-/ready": 503, "/prometheus/-/healthy": 200,
		"/prometheus/api/v1/query?query=1%2B1&time=4": 200} {
		if body, code, err := fetch(address + path); err != nil || code != want {
			t.Errorf("GET %s: %d %s (%v), want %d", path, code, body, err, want)
		}
	}
	if body, code, err := fetch(address + "/prometheus/api/v1/query?query=weir_hits_total"); err != nil || code < 400 ||
		!strings.Contains(body, "connection refused") {
		t.Errorf("a query without its Redis: %d %s (%v), want an error with the reason", code, body, err)
	}
}

func TestQueriesCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]string{"HISTORY_QUERY": "HISTORY_QUERY=false", "HISTORY": "HISTORY=false"} {
		w := startWeir(t, tenAnHour, env)
		body, code, err := fetch(w.admin + "/prometheus/api/v1/query?query=1%2B1")
		if err != nil || code != 404 || !strings.Contains(body, `"errorType":"not_found"`) || !strings.Contains(body, "HISTORY_QUERY=false") {
			t.Errorf("with %s=false: %d %s (%v), want 404 and why", name, code, body, err)
		}
		if body, _, _ := fetch(w.admin + "/metrics"); strings.Contains(body, "weir_history_queries_total") {
			t.Errorf("with %s=false /metrics tells of queries", name)
		}
	}
}

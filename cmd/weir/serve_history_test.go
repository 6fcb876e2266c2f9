package main

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/stats"
)

// storedSums returns all sums in a store by domain, path, value and outcome.
func storedSums(t *testing.T, store history.Store) map[string]uint64 {
	t.Helper()
	all := make(map[string]uint64)
	for id, s := range historytest.All(t, store) {
		all[strings.Join([]string{id.Domain, id.Path, id.Value, id.Outcome.String()}, " ")] = s.Lifetime
	}
	return all
}

// recordAndDrain records hits, runs the pipeline as weir serve does, and closes it as a drain does.
func recordAndDrain(t *testing.T, settings *config.Settings, log *slog.Logger) *historyPipeline {
	t.Helper()
	m, err := newHistoryPipeline(settings, stats.New("test"), &telemetry{settings: settings, log: log}, log)
	if err != nil {
		t.Fatal(err)
	}
	c := fixture.Config(t, "domain: shop\ndescriptors: [{key: user, value_to_metric: true, rate_limit: {requests_per_unit: 1, unit: day}}]")
	table := m.recorder.Table(c)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	d, modes := descriptors.Descriptor{{Key: "user", Value: "ann"}}, hits.Modes{NearRatio: 0.8}
	check := func(n uint64) *backend.Check {
		return &backend.Check{Limits: []descriptors.Limit{{Requests: 10}}, Hits: n, Charge: descriptors.ChargeAdmitted}
	}
	rule := c.Match("shop", d).Rule
	table.Counter(rule, "shop").Record(&hits.Event{Rule: rule, Descriptor: d, Check: check(5),
		Decision: &backend.Decision{Allowed: true, Before: 4}}, modes)
	table.Counter(nil, "nowhere").Record(&hits.Event{Descriptor: d, Check: check(2), Decision: new(backend.Decision)}, modes)
	stop()
	running.Wait()
	if err := m.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

var someKept = map[string]uint64{
	"shop user user=ann within": 5, "shop user user=ann near": 1, "__unknown__ __unmatched__  over": 2,
}

// mustOpen opens the history of an environment until the test ends.
func mustOpen(t *testing.T, settings *config.Settings) history.Store {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	open := func() (history.Store, error) { return historycmd.OpenFileOrMemory(settings, log) }
	if settings.HistoryInRedis() {
		open = func() (history.Store, error) { return historycmd.OpenRedis(settings, log, true) }
	}
	store, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // a test may have closed it
	return store
}

func TestDrainStoresTheLastHits(t *testing.T) {
	url := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(url, []byte(redistest.Single(t).Addr+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for where, environment := range map[string]map[string]string{
		"a file": {"DATA_DIR": t.TempDir()},
		"a Redis of its own, beside counters in memory": {"REDIS_HISTORY_URL": redistest.Single(t).Addr, "REDIS_TIMEOUT": "60s"},
		"a Redis whose URL is in a file, which goes before the URL, beside counters in another": {"REDIS_HISTORY_URL_FILE": url,
			"REDIS_HISTORY_URL": "nobody:1", "REDIS_URL_FILE": "/nobody", "REDIS_TIMEOUT": "60s"},
	} {
		settings := settingsAs(t, "weir", environment)
		recordAndDrain(t, settings, slog.New(slog.DiscardHandler))
		if got := storedSums(t, mustOpen(t, settings)); !maps.Equal(got, someKept) {
			t.Errorf("%s has %v; want %v", where, got, someKept)
		}
	}
}

// A restarted process adds no series beyond the quota to those of its predecessors, until one of these has had no hits for
// so long that all of it is in buckets of days.
func TestRestartKeepsTheBoundOnSeries(t *testing.T) {
	for days, ann := range map[int64]string{0: "__other__", 60: "user=ann"} {
		settings := settingsAs(t, "weir", map[string]string{"DATA_DIR": t.TempDir(), "HISTORY_VALUES": "1"})
		file := mustOpen(t, settings)
		bob := history.ID{Domain: "shop", Path: "user", Value: "user=bob"}
		historytest.Count(t, file, history.Increment{ID: bob, Minute: time.Now().Unix()/60 - days*1440, Hits: 7})
		if _, err := file.Downsample(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		recordAndDrain(t, settings, slog.New(slog.DiscardHandler))
		want := map[string]uint64{"shop user user=bob within": 7, "shop user " + ann + " within": 5, "shop user " + ann + " near": 1,
			"__unknown__ __unmatched__  over": 2}
		if got := storedSums(t, mustOpen(t, settings)); !maps.Equal(got, want) {
			t.Errorf("%d days after bob's last hits the history has %v; want %v, as there is one place", days, got, want)
		}
	}
}

func TestHistoryWithoutADirectoryIsInMemory(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, warnings := range map[string]int{filepath.Join(taken, "data"): 1, "": 0} {
		var log strings.Builder
		settings := settingsAs(t, "weir", map[string]string{"DATA_DIR": dir})
		store, err := historycmd.OpenFileOrMemory(settings, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("DATA_DIR=%s: %v; want a history in memory", dir, err)
		}
		defer store.Close()
		if strings.Count(log.String(), "level=WARN") != warnings || strings.Count(log.String(), "\n") != warnings {
			t.Errorf("DATA_DIR=%s: want %d warnings, and got\n%s", dir, warnings, &log)
		}
	}
}

// If two processes overlap at a restart, the new one opens the file once the old one has ended.
func TestBusyHistoryFileIsOpenedLater(t *testing.T) {
	settings := settingsAs(t, "weir", map[string]string{"DATA_DIR": t.TempDir()})
	other := mustOpen(t, settings)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := history.NewRetryingStore(func() (history.Store, error) { return historycmd.OpenFileOrMemory(settings, logger) }, logger)
	for range 2 {
		s.Open()
	}
	if _, err := s.Apply(t.Context(), 0, history.Batch{Writer: "w"}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v; want the reason why the history is not open", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.Open()
	if _, err := s.Apply(t.Context(), 0, history.Batch{Writer: "w"}); err != nil {
		t.Errorf("the file is free, and the history says %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "level=WARN") != 1 || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("want one warning for all attempts, and one line once it is open; got\n%s", &log)
	}
}

func TestHistoryFalseKeepsNoHistory(t *testing.T) {
	settings := settingsAs(t, "weir", map[string]string{"HISTORY": "false", "DATA_DIR": t.TempDir()})
	m := recordAndDrain(t, settings, slog.New(slog.DiscardHandler))
	if m.api() != nil {
		t.Error("there is an API for a history that is off")
	}
	if files, err := os.ReadDir(settings.DataDir); err != nil || len(files) > 0 {
		t.Errorf("HISTORY=false left %v, %v in DATA_DIR; want nothing", files, err)
	}
	if totals := m.recorder.Totals(); len(totals) != 3 {
		t.Errorf("%d totals; want those of the rule, of no rule and of no domain: /metrics shows hits without a history too", len(totals))
	}
}

func TestQueriesNameTheMissingVariable(t *testing.T) {
	for variable, want := range map[string]string{
		"HISTORY": `{"status":"error","errorType":"not_found","error":"this weir keeps no history: set HISTORY=true to keep one in memory ` +
			`until the process ends (in a file: DATA_DIR as well)"}`,
		"HISTORY_QUERY": `{"status":"error","errorType":"not_found","error":"this weir answers no queries of its history: set HISTORY_QUERY=true"}`,
	} {
		settings := settingsAs(t, "weir", map[string]string{variable: "false", "DATA_DIR": ""})
		log := slog.New(slog.DiscardHandler)
		port := admin.Handler(admin.Parts{Ready: func() error { return nil }, Metrics: http.NotFoundHandler(), Access: &admin.Access{Host: "127.0.0.1"},
			Query: recordAndDrain(t, settings, log).queries(settings, nil, log)})
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			answer, question := httptest.NewRecorder(), httptest.NewRequest(method, "http://127.0.0.1/prometheus/api/v1/query?query=up", nil)
			port.ServeHTTP(answer, question)
			if body := strings.TrimSpace(answer.Body.String()); answer.Code != http.StatusNotFound || body != want ||
				answer.Header().Get("Content-Type") != "application/json" {
				t.Errorf("with %s=false a query is answered %d %s, want 404 and %s: Grafana shows that sentence", variable, answer.Code, body, want)
			}
		}
	}
}

func TestServeDownsamplesAndLogsOnlyProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := filehistory.InMemory(filehistory.Config{Retention: history.DefaultRetention()})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		id := history.ID{Domain: "shop", Path: "user"}
		old := history.Increment{ID: id, Minute: time.Now().Unix()/60 - 100*1440, Hits: 5}
		if _, err := store.Apply(t.Context(), id.Partition(), history.Batch{Writer: "test", Seq: 1, Increments: []history.Increment{old}}); err != nil {
			t.Fatal(err)
		}
		log := &bytes.Buffer{}
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { downsamplePeriodically(ctx, store, time.Minute, slog.New(slog.NewTextHandler(log, nil))) })
		pass := func() {
			time.Sleep(4 * time.Minute) // two runs at least
			synctest.Wait()
		}
		pass()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "downsampled the history") {
			t.Errorf("the log of one run that moved something, and others that did not, is\n%s", got)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		pass()
		if got := log.String(); !strings.Contains(got, "downsampling the history failed; the next run tries again") {
			t.Errorf("without a history the log is\n%s", got)
		}
		end()
		running.Wait()
	})
}

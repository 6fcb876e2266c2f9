package main

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/stats"
)

// settingsOf are those of an environment.
func settingsOf(t *testing.T, environment map[string]string) *config.Settings {
	t.Helper()
	set, err := config.Read(environment)
	if err != nil {
		t.Fatal(err)
	}
	return &set
}

// kept is all that a store holds, by domain, path, value and outcome.
func kept(t *testing.T, store history.Store) map[string]uint64 {
	t.Helper()
	all := make(map[string]uint64)
	err := store.Query(t.Context(), history.Query{To: time.Now().Unix() + 60}, func(s history.Series) error {
		all[strings.Join([]string{s.ID.Domain, s.ID.Path, s.ID.Value, s.ID.Outcome.String()}, " ")] = s.Lifetime
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// recordSome records hits, runs what weir serve runs, and ends it as a drain does.
func recordSome(t *testing.T, set *config.Settings, log *slog.Logger) *historyPipeline {
	t.Helper()
	m, err := newHistoryPipeline(set, stats.New("test"), log)
	if err != nil {
		t.Fatal(err)
	}
	c := fixture.Config(t, "domain: shop\ndescriptors:\n"+
		"- {key: user, value_to_metric: true, rate_limit: {requests_per_unit: 1, unit: day}}")
	table := m.recorder.Table(c)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.run(ctx) })
	d, modes := descriptors.Descriptor{{Key: "user", Value: "ann"}}, hits.Modes{Near: hits.DefaultNear}
	check := func(n uint64) *backend.Check {
		return &backend.Check{Limits: []descriptors.Limit{{Requests: 10}}, Hits: n, Charge: descriptors.ChargeAdmitted}
	}
	rule := c.Match("shop", d).Rule
	table.Counter(rule, "shop").Record(&hits.Hit{Rule: rule, Descriptor: d, Check: check(5),
		Decision: &backend.Decision{Allowed: true, Before: 4}}, modes)
	table.Counter(nil, "nowhere").Record(&hits.Hit{Descriptor: d, Check: check(2), Decision: new(backend.Decision)}, modes)
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

func TestADrainBringsTheLastHitsToTheStore(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	check := func(store history.Store, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := kept(t, store); !maps.Equal(got, someKept) {
			t.Errorf("the history has %v; want %v", got, someKept)
		}
	}
	set := settingsOf(t, map[string]string{"DATA_DIR": t.TempDir()})
	recordSome(t, set, quiet)
	file, err := filehistory.Open(filehistory.Config{Dir: set.DataDir, Keep: history.DefaultKeep()})
	check(file, err)
	defer file.Close()
	// A history with a Redis of its own, beside counters in memory.
	set = settingsOf(t, map[string]string{"REDIS_HISTORY_URL": redistest.Single(t).Addr, "REDIS_TIMEOUT": "60s"})
	if set.BackendType != "memory" || set.Downsamples() {
		t.Errorf("counters in %s, downsampling %v; want memory, and a job that is shared", set.BackendType, set.Downsamples())
	}
	recordSome(t, set, quiet)
	openRedis := func(set *config.Settings) (*redishistory.Store, error) {
		c, err := set.RedisHistory(quiet)
		if err != nil {
			t.Fatal(err)
		}
		return redishistory.Open(c)
	}
	inRedis, err := openRedis(set)
	check(inRedis, err)
	defer inRedis.Close()
	// The same by a file, which goes before the URL, and beside counters in a Redis whose URL is in another.
	url := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(url, []byte(redistest.Single(t).Addr+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	set = settingsOf(t, map[string]string{"REDIS_HISTORY_URL_FILE": url, "REDIS_HISTORY_URL": "nobody:1", "REDIS_URL_FILE": "/nobody"})
	recordSome(t, set, quiet)
	byFile, err := openRedis(set)
	check(byFile, err)
	defer byFile.Close()
}

// A process that starts anew adds none beyond the bound to the series that its predecessors have made, until one of these
// has had no hits for so long that all of it is in days.
func TestSeriesOfFormerProcessesCountForTheBound(t *testing.T) {
	for days, ann := range map[int64]string{0: "__other__", 60: "user=ann"} {
		set := settingsOf(t, map[string]string{"DATA_DIR": t.TempDir(), "HISTORY_VALUES": "1"})
		open := func() *filehistory.Store {
			file, err := filehistory.Open(filehistory.Config{Dir: set.DataDir, Keep: history.DefaultKeep()})
			if err != nil {
				t.Fatal(err)
			}
			return file
		}
		file := open()
		bob := history.ID{Domain: "shop", Path: "user", Value: "user=bob"}
		historytest.Count(t, file, history.Increment{ID: bob, Minute: time.Now().Unix()/60 - days*1440, Hits: 7})
		if _, err := file.Roll(t.Context(), history.Job{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		recordSome(t, set, slog.New(slog.DiscardHandler))
		file = open()
		defer file.Close()
		want := map[string]uint64{"shop user user=bob within": 7, "shop user " + ann + " within": 5, "shop user " + ann + " near": 1,
			"__unknown__ __unmatched__  over": 2}
		if got := kept(t, file); !maps.Equal(got, want) {
			t.Errorf("%d days after bob's last hits the history has %v; want %v, as there is one place", days, got, want)
		}
	}
}

func TestWithoutAPlaceForAFileTheHistoryIsInMemory(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, warnings := range map[string]int{filepath.Join(taken, "data"): 1, "": 0} {
		var log strings.Builder
		set := settingsOf(t, map[string]string{"DATA_DIR": dir})
		store, err := openServedHistory(set, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatalf("DATA_DIR=%s: %v; want a history in memory", dir, err)
		}
		defer store.Close()
		if strings.Count(log.String(), "level=WARN") != warnings || strings.Count(log.String(), "\n") != warnings {
			t.Errorf("DATA_DIR=%s: want %d warnings, and got\n%s", dir, warnings, &log)
		}
	}
}

// Of two processes that overlap in a restart, the new one takes the file over when the old one ends.
func TestAFileInUseIsOpenedWhenItIsFree(t *testing.T) {
	set := settingsOf(t, map[string]string{"DATA_DIR": t.TempDir()})
	other, err := filehistory.Open(filehistory.Config{Dir: set.DataDir, Keep: history.DefaultKeep()})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := &reopeningStore{open: func() (servedStore, error) { return openServedHistory(set, logger) }, log: logger}
	for range 2 {
		s.try()
	}
	if _, err := s.Apply(t.Context(), 0, history.Batch{Writer: "w"}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v; want the reason why the history is not open", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.try()
	if _, err := s.Apply(t.Context(), 0, history.Batch{Writer: "w"}); err != nil {
		t.Errorf("the file is free, and the history says %v", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "level=WARN") != 1 || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("want one warning for all attempts, and one line once it is open; got\n%s", &log)
	}
}

func TestHistoryFalseKeepsNone(t *testing.T) {
	set := settingsOf(t, map[string]string{"HISTORY": "false", "DATA_DIR": t.TempDir()})
	m := recordSome(t, set, slog.New(slog.DiscardHandler))
	if m.api() != nil {
		t.Error("there is an API for a history that is off")
	}
	if files, err := os.ReadDir(set.DataDir); err != nil || len(files) > 0 {
		t.Errorf("HISTORY=false left %v, %v in DATA_DIR; want nothing", files, err)
	}
	if totals := m.recorder.Totals(); len(totals) != 3 {
		t.Errorf("%d totals; want those of the rule, of no rule and of no domain: /metrics shows hits without a history too", len(totals))
	}
}

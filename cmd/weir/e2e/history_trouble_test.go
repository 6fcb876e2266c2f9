package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis"
)

func TestATornHistoryFileIsSaidAndLeftAloneWhileWeirLimits(t *testing.T) {
	t.Parallel()
	w := startWeir(t, historyRules, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	expectHits(t, w, 3)
	w.drain(t)
	path := filepath.Join(w.data, filehistory.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)*3/8]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}

	w.start(t)
	w.says(t, "level=WARN", path, "is damaged", "move the file away")
	expectHits(t, w, 5)
	if c, err := w.history(); err != nil || !strings.Contains(c.Error, "is damaged") {
		t.Errorf("the API answers %+v, %v, want the reason why there is no history", c, err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(torn) {
		t.Errorf("the torn file has been changed (%v): nobody may make it worse", err)
	}
	// Whoever moves the file away gets what has waited meanwhile.
	if err := os.Rename(path, path+".torn"); err != nil {
		t.Fatal(err)
	}
	w.drain(t)
	w.start(t)
	expectLifetime(t, w, 5)
	w.drain(t)
	if err := os.WriteFile(path, whole, 0o600); err != nil { // as from a copy
		t.Fatal(err)
	}
	w.start(t)
	expectLifetime(t, w, 3)
}

func TestARedisThatMayEvictIsWarnedOf(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithConfig("maxmemory-policy allkeys-lru"))
	w := startWeir(t, historyRules, "REDIS_URL="+server.Addr, "REDIS_TIMEOUT=5s", "HISTORY_FLUSH_INTERVAL=1s")
	w.says(t, "level=WARN", "set maxmemory-policy to noeviction", "allkeys-lru")
	expectHits(t, w, 3)
	expectLifetime(t, w, 3)
}

func TestAnotherFormatIsSaidAndLeftAloneWhileWeirLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	store := openSeries(t, redis.Config{URL: server.Addr})
	filled := fill(t, store, 10)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	set := func(version string) {
		for p := range history.Partitions {
			if err := server.Client().Set(t.Context(), fmt.Sprintf("%s{%d}:format", redishistory.Prefix, p), version, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("2")
	env := []string{"REDIS_URL=" + server.Addr, "REDIS_TIMEOUT=5s", "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s"}
	w := startWeir(t, historyRules, env...)
	w.says(t, "level=WARN", "in another format: 2, and this weir knows 1")
	expectHits(t, w, 4)
	if c, err := w.history(); err != nil || !strings.Contains(c.Error, "another format") {
		t.Errorf("the API answers %+v, %v, want the reason why it cannot", c, err)
	}
	for _, args := range [][]string{{"downsample", "--once"}, {"history", "verify"}} {
		if printed, code := command(t, env, args...); code != 2 || !strings.Contains(printed, "another format") {
			t.Errorf("weir %v ends with %d, want 2, and says %s", args, code, printed)
		}
	}
	set("1") // the right weir is back, and what waited lands beside what was there
	expectLifetime(t, w, filled+4)
}

func TestAMissingRingNodeIsSaidAndNothingMovesElsewhere(t *testing.T) {
	t.Parallel()
	nodes := redistest.Ring(t, 3)
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	whole := redis.Config{Type: redis.Ring, URL: strings.Join(addrs, ",")}
	store := openSeries(t, whole)
	filled := fill(t, store, 10)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	held := fmt.Sprintf("%s{%d}:writers", redishistory.Prefix, historyID.Partition())
	holder := slices.IndexFunc(nodes, func(n *redistest.Server) bool { return n.Client().Exists(t.Context(), held).Val() == 1 })
	others := slices.Delete(slices.Clone(addrs), holder, holder+1)
	serve := func(names []string) *weir {
		return startWeir(t, historyRules, "REDIS_TYPE=ring", "REDIS_HISTORY_URL="+strings.Join(names, ","),
			"REDIS_TIMEOUT=5s", "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	}
	without := serve(others)
	without.says(t, "level=WARN", "node "+addrs[holder]+" is missing", "name it again")
	expectHits(t, without, 3)
	if c, err := without.history(); err != nil || !strings.Contains(c.Error, "is missing") {
		t.Errorf("the API answers %+v, %v, want the node that is missing: half of a history looks like a whole one", c, err)
	}
	without.drain(t)
	without.says(t, "hits did not reach the history before the end", "hits=3")

	// A node that is named and does not answer is waited for.
	w := serve(addrs)
	expectLifetime(t, w, filled)
	nodes[holder].Stop()
	expectHits(t, w, 5)
	nodes[holder].Cont()
	expectLifetime(t, w, filled+5)
}

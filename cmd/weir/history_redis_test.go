package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// payOver is a series of these tests.
var payOver = history.ID{Domain: "shop", Path: "user/path=%2Fpay", Outcome: history.Over}

// redisHistory is a Redis that this process's environment names, with hits from now back to a week ago.
func redisHistory(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Single(t)
	t.Setenv("BACKEND_TYPE", "")
	t.Setenv("REDIS_TYPE", "single")
	t.Setenv("REDIS_URL", server.Addr)
	t.Setenv("REDIS_TIMEOUT", "60s")
	store, err := redishistory.Open(redishistory.Config{Redis: topology.Config{URL: server.Addr, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	b := history.Batch{Writer: "test", Seq: 1}
	for day := range int64(7) {
		b.Increments = append(b.Increments, history.Increment{ID: payOver, Minute: time.Now().Unix()/60 - day*1440, Hits: 5})
	}
	if result, err := store.Apply(t.Context(), payOver.Partition(), b); err != nil || result.Status != history.Applied {
		t.Fatalf("applying a batch: %+v, %v", result, err)
	}
	return server
}

// runWeir runs a command line of weir in this process, and returns what it prints and its exit code.
func runWeir(t *testing.T, args ...string) (string, int) {
	t.Helper()
	kept := os.Stdout
	defer func() { os.Stdout = kept }()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = write
	printed := make(chan string)
	go func() {
		var all bytes.Buffer
		_, _ = all.ReadFrom(read) // until write is closed
		printed <- all.String()
	}()
	code := run("weir", args)
	write.Close()
	return <-printed, code
}

func TestHistoryAndDownsampleOpenTheRedisOfTheEnvironment(t *testing.T) {
	server := redisHistory(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"history", "top", "--from", "-8d"}, 0, "35  ████████████████████  shop user/path=/pay"},
		{[]string{"history", "show", "--path", "user/path=/pay", "--from", "-8d"}, 0, "total 35   lifetime 35   peak 5/min"},
		{[]string{"history", "verify"}, 0, "Looked at 1 series with 7 points: each holds exactly"},
		{[]string{"downsample", "--once", "--dry-run"}, 0, "would move 1 series.\n  1m to 5m"},
		{[]string{"downsample", "--once"}, 0, "moved 1 series.\n  1m to 5m"},
		{[]string{"downsample", "--once"}, 0, "moved 0 series.\n"},
		{[]string{"history", "show", "--domain", "nobody"}, 2, ""},
	} {
		printed, code := runWeir(t, c.args...)
		if code != c.code || !strings.Contains(printed, c.want) {
			t.Errorf("weir %s printed\n%s and ended with %d, want %q and %d", strings.Join(c.args, " "), printed, code, c.want, c.code)
		}
	}
	server.Kill()
	if printed, code := runWeir(t, "history", "verify", "--timeout", "60s"); code != 2 {
		t.Errorf("without a server, weir history verify printed\n%s and ended with %d, want 2: it has found out nothing", printed, code)
	}
}

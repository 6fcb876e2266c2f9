package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

var threeAnHour = weirtest.Rule("basic", "unit: hour, requests_per_unit: 3")

// warned returns the warnings in a process's log that contain a text.
func warned(p *process.Process, text string) (lines []string) {
	for line := range strings.Lines(p.Log.String()) {
		if (strings.Contains(line, "level=warning") || strings.Contains(line, "level=WARN")) && strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// In place of envoyproxy/ratelimit, weir is started by its name, with no arguments and its variables. Only ports and
// the socket are of this test, since others share the machine.
func TestWeirStartedAsRatelimitServesLikeIt(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t, redistest.WithUnixSocket())
	root := filepath.Join(t.TempDir(), "data")
	config := filepath.Join(root, "ratelimit", "config")
	if err := errors.Join(os.MkdirAll(config, 0o755), os.Symlink(root, root+"-current"),
		os.WriteFile(filepath.Join(config, "config.yaml"), []byte("domain: shop\ndescriptors:\n"+threeAnHour), 0o644)); err != nil {
		t.Fatal(err)
	}
	w := weirtest.New(t, "REDIS_URL="+server.Socket, weirtest.PatientRedis, "DRAIN_DELAY=0s", "RUNTIME_ROOT="+root+"-current",
		"RUNTIME_SUBDIRECTORY=ratelimit")
	w.Start(t, process.Ratelimit(t))
	w.AwaitReady(t)
	c := w.Client(t)
	awaitCounts(t, c, "basic")
	hour := int64(time.Hour / time.Second)
	weirtest.AwaitRoomInHour()
	for i, want := range []string{"OK", "OK", "OK", "OVER_LIMIT"} {
		before := hour - time.Now().Unix()%hour
		answer, err := c.Ask("shop", weirtest.Describe("plan", "basic", "user", "ann"))
		if err != nil {
			t.Fatal(err)
		}
		if got := answer.OverallCode.String(); got != want || answer.DynamicMetadata != nil {
			t.Errorf("hit %d of 3 an hour is answered %v, want %s, and no metadata", i+1, answer, want)
		}
		after := hour - time.Now().Unix()%hour
		if got := answer.Statuses[0].DurationUntilReset.Seconds; got > before || got < after {
			t.Errorf("the limit resets in %d s, want %d to %d s: windows begin on the hour", got, after, before)
		}
	}
	key := fmt.Sprintf("shop_plan_basic_user_ann_%d", time.Now().Unix()/hour*hour)
	if n, err := server.Client().Get(t.Context(), key).Int(); err != nil || n != 4 {
		t.Errorf("the key %s holds %d (%v), want 4 hits: envoyproxy/ratelimit counts there, too", key, n, err)
	}
	if keys, err := server.Client().Keys(t.Context(), "*3:ann*").Result(); err != nil || len(keys) != 0 {
		t.Errorf("Redis holds %q (%v), want nothing of the user's beside that", keys, err)
	}
	w.Drain(t)
	for _, line := range warned(w.Process, "") {
		t.Errorf("it starts with a warning, and nothing is wrong: %s", line)
	}
}

func TestRatelimitConfigCheckTellsGoodFromBad(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "ratelimit_config_check")
	if err := os.Symlink(process.Weir(t), link); err != nil {
		t.Fatal(err)
	}
	own, behind := []string{link}, []string{process.Weir(t), "/bin/ratelimit_config_check"}
	good := "domain: shop\ndescriptors:\n" + threeAnHour
	more := strings.Replace(good, "basic", "gold", 1)
	for _, tc := range []struct {
		promise string
		line    []string
		files   map[string]string
		flags   []string
		code    int
		want    string
	}{
		{"right files", own, map[string]string{"a.yaml": good}, nil, 0, "all rate limit configs ok"},
		{"no files", behind, nil, nil, 0, "all rate limit configs ok"},
		{"a unit that is none", behind, map[string]string{"a.yaml": strings.Replace(good, "hour", "our", 1)}, nil, 1, "a.yaml"},
		{"no YAML", own, map[string]string{"a.yaml": "domain: ["}, nil, 1, "error loading rate limit configs"},
		{"one bad file of two", own, map[string]string{"a.yaml": good, "b.yaml": "domain: b\nother: 1"}, nil, 1, "b.yaml"},
		{"a domain twice", own, map[string]string{"a.yaml": good, "b.yaml": more}, nil, 1, "shop"},
		{"a domain merged", own, map[string]string{"a.yaml": good, "b.yaml": more}, []string{"--merge_domain_configs"}, 0, "ok"},
		{"a wrong flag", own, nil, []string{"-strict"}, 2, "flag provided but not defined"},
		{"no folder", own, nil, []string{"-config_dir", "/nowhere"}, 1, "error opening directory"},
	} {
		dir := t.TempDir()
		for name, content := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		args := slices.Concat(tc.line[1:], []string{"-config_dir", dir}, tc.flags)
		if printed, code := process.Command(t, nil, tc.line[0], args...); code != tc.code || !strings.Contains(printed, tc.want) {
			t.Errorf("%s: it ends with %d and %q; want %d and %q", tc.promise, code, printed, tc.code, tc.want)
		}
	}
}

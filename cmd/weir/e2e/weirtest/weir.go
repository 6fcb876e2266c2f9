// Package weirtest starts what tests of the whole program need: a weir that is ready, an Envoy before it, and clients of
// both. The tests of e2e, dropin, cookbook and the chart share it; nothing that is shipped imports it.
package weirtest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// PatientRedis is for tests in which no call may fail: on a busy machine half a second can pass without an answer.
const PatientRedis = "REDIS_TIMEOUT=60s"

// Weir is a running weir with ports of its own.
type Weir struct {
	*process.Process
	GRPC        string // host:port
	HTTP, Admin string // URLs
	Config      string // the folder of its descriptor files

	env  []string
	line []string // the command line that it was started with last
}

// Serve runs weir serve with rules of domain shop and waits until it is ready. Settings are NAME=value.
func Serve(t testing.TB, rules string, settings ...string) *Weir {
	t.Helper()
	return ServeFiles(t, map[string]string{"shop.yaml": shop + rules}, settings...)
}

// ServeFiles is Serve with descriptor files, by name.
func ServeFiles(t testing.TB, files map[string]string, settings ...string) *Weir {
	t.Helper()
	w := New(t, slices.Concat([]string{"DATA_DIR=" + t.TempDir()}, settings)...)
	for name, text := range files {
		w.Write(t, name, text)
	}
	w.Start(t, process.Weir(t), "serve", "--config", w.Config)
	w.AwaitReady(t)
	return w
}

// Ratelimit runs weir in the place of envoyproxy/ratelimit with rules of domain shop, and waits until it is ready.
func Ratelimit(t testing.TB, rules string, settings ...string) *Weir {
	t.Helper()
	w := New(t, "USE_STATSD=false", "DRAIN_DELAY=0s")
	w.env = append(w.env, "RUNTIME_ROOT="+filepath.Dir(w.Config), "RUNTIME_APPDIRECTORY=config", "RUNTIME_WATCH_ROOT=false")
	w.env = append(w.env, settings...)
	w.Configure(t, rules)
	w.Start(t, process.Ratelimit(t))
	w.AwaitReady(t)
	return w
}

// New returns a weir that was not started, with an empty configuration.
func New(t testing.TB, settings ...string) *Weir {
	t.Helper()
	root, grpc, http, debug := t.TempDir(), process.Addr(t), process.Addr(t), process.Addr(t)
	w := &Weir{GRPC: grpc, HTTP: "http://" + http, Admin: "http://" + debug, Config: filepath.Join(root, "config")}
	if err := os.Mkdir(w.Config, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{"GRPC_": grpc, "": http, "DEBUG_": debug} {
		host, port, _ := strings.Cut(addr, ":")
		w.env = append(w.env, name+"HOST="+host, name+"PORT="+port)
	}
	w.env = append(w.env, settings...)
	return w
}

// Start runs a command line, without one the last again, and does not wait.
func (w *Weir) Start(t testing.TB, line ...string) {
	t.Helper()
	if len(line) > 0 {
		w.line = line
	}
	w.Process = process.Start(t, filepath.Base(w.line[0]), w.env, w.line[0], w.line[1:]...)
}

// AwaitReady waits until it answers with its configuration.
func (w *Weir) AwaitReady(t testing.TB) {
	t.Helper()
	w.Process.AwaitReady(t, func() error { return WantStatus(w.Admin+"/readyz", 200) })
}

// Restart starts it once more after it has ended, and waits until it is ready.
func (w *Weir) Restart(t testing.TB) {
	t.Helper()
	w.Start(t)
	w.AwaitReady(t)
}

// shop begins the descriptor file of domain shop.
const shop = "domain: shop\ndescriptors:\n"

// Configure replaces the rules of domain shop in one step, so that weir never sees half a file.
func (w *Weir) Configure(t testing.TB, rules string) {
	t.Helper()
	w.Write(t, "shop.yaml", shop+rules)
}

// Write puts a descriptor file into its folder in one step.
func (w *Weir) Write(t testing.TB, name, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(w.Config), name)
	if err := os.WriteFile(next, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(w.Config, name)); err != nil {
		t.Fatal(err)
	}
}

// Counted returns how many hits the store has counted for a user of a plan under its one limit, as weir counters shows.
func (w *Weir) Counted(plan, user string) (uint64, error) {
	query := url.Values{"domain": {"shop"}, "descriptor": {"plan=" + plan + ",user=" + user}}
	var shown struct{ Limits []struct{ Hits uint64 } }
	err := GetJSON(w.Admin+"/api/v1/counters?"+query.Encode(), &shown)
	if err == nil && len(shown.Limits) != 1 {
		err = fmt.Errorf("the counters of %v have %d limits, want one", query, len(shown.Limits))
	}
	if err != nil {
		return 0, err
	}
	return shown.Limits[0].Hits, nil
}

// Lifetimes returns how many hits of domain shop the history has ever counted, by outcome.
func (w *Weir) Lifetimes() (map[string]uint64, error) {
	var shown struct {
		Series []struct {
			Outcome  string
			Lifetime uint64
		}
	}
	all := make(map[string]uint64)
	err := GetJSON(w.Admin+"/api/v1/history?domain=shop&points=1", &shown)
	for _, series := range shown.Series {
		all[series.Outcome] += series.Lifetime
	}
	return all, err
}

// Says waits until weir has printed some texts.
func (w *Weir) Says(t testing.TB, want ...string) {
	t.Helper()
	w.Eventually(t, fmt.Sprintf("weir prints %q", want), func() error {
		for _, text := range want {
			if err := w.Log.Contains(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// Eventually is [Eventually] as long as weir runs.
func (w *Weir) Eventually(t testing.TB, promise string, check func() error) {
	t.Helper()
	Eventually(t, promise, func() error {
		ended := w.Ended()
		err := check()
		if err != nil && ended != nil {
			t.Fatalf("%s: %v, and %v", promise, err, ended)
		}
		return err
	})
}

// Command runs another command of weir, which asks this one on its admin port.
func (w *Weir) Command(t testing.TB, args ...string) (printed string, code int) {
	t.Helper()
	args = append(args, "--admin", strings.TrimPrefix(w.Admin, "http://"))
	return process.Command(t, nil, process.Weir(t), args...)
}

// Rule returns a rule of YAML: a limit for each user of a plan, as rate_limit has it.
func Rule(plan, limit string) string {
	return fmt.Sprintf("- key: plan\n  value: %s\n  descriptors:\n  - key: user\n    rate_limit: { %s }\n", plan, limit)
}

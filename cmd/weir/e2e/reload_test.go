package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestAChangedFileIsInForceAndABrokenOneChangesNothing(t *testing.T) {
	t.Parallel()
	rules := func(perHour int) string {
		return weirtest.Rule("basic", fmt.Sprint("unit: hour, requests_per_unit: ", perHour))
	}
	w := weirtest.Serve(t, rules(1_000_000))
	c := w.Client(t)
	inForce := func(perHour uint32) error {
		status, err := c.Look("basic", "ann")
		if err == nil && status.GetCurrentLimit().GetRequestsPerUnit() != perHour {
			err = fmt.Errorf("the limit in force is %v, want %d per hour", status.GetCurrentLimit(), perHour)
		}
		return err
	}
	if err := inForce(1_000_000); err != nil {
		t.Fatalf("before any change: %v", err)
	}
	running := startLoad(t, w, 2, "basic", func(status *rlspb.RateLimitResponse_DescriptorStatus) error {
		if status.CurrentLimit == nil {
			return errors.New("a request was answered without a limit, as if there were no configuration")
		}
		return nil
	})
	running.Reach(t, 10)
	w.Configure(t, rules(5))
	weirtest.Eventually(t, "a changed file is in force", func() error { return inForce(5) })
	if status, err := c.Hit("basic", "ann"); err != nil || status.Code.String() != "OVER_LIMIT" {
		t.Errorf("with more than 5 hits counted, a limit lowered to 5 answers %v (%v), want OVER_LIMIT: a reload keeps "+
			"the counts", status, err)
	}
	w.Configure(t, "- key: plan\n  no_such_key: 7\n")
	w.Says(t, "level=ERROR", "no_such_key")
	if err := inForce(5); err != nil {
		t.Fatalf("after a broken file the last good one stays in force, but: %v", err)
	}
	if err := weirtest.WantStatus(w.Admin+"/readyz", 200); err != nil {
		t.Errorf("a broken file must not take weir out of service: %v", err)
	}
	w.Configure(t, rules(2_000_000))
	weirtest.Eventually(t, "a mended file is in force", func() error { return inForce(2_000_000) })
	running.WantNoFailures(t, "clients during a reload")
}

// saysTimes waits until a text was logged so many times.
func saysTimes(t *testing.T, w *weirtest.Weir, text string, times int) {
	t.Helper()
	w.Eventually(t, fmt.Sprintf("weir logs %q %d times", text, times), func() error {
		if n := strings.Count(w.Log.String(), text); n != times {
			return fmt.Errorf("it was logged %d times", n)
		}
		return nil
	})
}

// Whoever serves in the background of a terminal has SIGHUP ignored. It is read all the same, and ends nothing.
func TestSIGHUPReadsTheConfigurationAgainAlsoWhereItWasIgnored(t *testing.T) {
	t.Parallel()
	for name, ignored := range map[string]string{"heard": "", "ignored at the start": `trap "" HUP; `} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := weirtest.New(t)
			w.Configure(t, largePlan)
			w.Start(t, "/bin/sh", "-c", ignored+`exec "$0" "$@"`, process.Weir(t), "serve", "--config", w.Config)
			w.AwaitReady(t)
			w.Signal(t, syscall.SIGHUP)
			saysTimes(t, w, "configuration loaded", 2)
			w.Configure(t, "- key: plan\n  no_such_key: 7\n")
			saysTimes(t, w, "configuration not loaded", 1)
			w.Signal(t, syscall.SIGHUP)
			saysTimes(t, w, "configuration not loaded", 2) // who asks again is told again what is wrong
			w.Configure(t, largePlan+"    shadow_mode: true\n")
			saysTimes(t, w, "configuration loaded", 3)
			if _, err := w.Client(t).Hit("large", "ann"); err != nil {
				t.Errorf("after SIGHUP: %v", err)
			}
		})
	}
}

func TestSIGHUPEndsWhatIsStartedAsRatelimit(t *testing.T) {
	t.Parallel()
	w := weirtest.Ratelimit(t, largePlan, "BACKEND_TYPE=memory")
	w.Signal(t, syscall.SIGHUP)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("the exit code is %d, want 0: envoyproxy/ratelimit drains and ends", code)
	}
}

func TestSIGHUPEndsACallButNotOneThatIsToOutliveItsTerminal(t *testing.T) {
	t.Parallel()
	// Children would inherit that SIGHUP is ignored, as it is where the tests themselves were started by nohup.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	w := weirtest.Serve(t, largePlan)
	call := func(ignored string) *process.Process {
		return process.Start(t, "weir call", nil, "/bin/sh", "-c", ignored+`exec "$0" "$@"`, process.Weir(t), "call", "--addr", w.GRPC,
			"--domain", "shop", "--descriptor", "plan=large,user=ann", "--rate", "10", "--for", "1h")
	}
	goesOn := func(call *process.Process) {
		t.Helper()
		before := call.Log.String()
		weirtest.Eventually(t, "the call goes on", func() error {
			if err := call.Ended(); err != nil {
				t.Fatal(err)
			}
			if call.Log.String() == before {
				return fmt.Errorf("it prints no more than %q", before)
			}
			return nil
		})
	}
	plain, kept := call(""), call(`trap "" HUP; `)
	for _, call := range []*process.Process{plain, kept} {
		goesOn(call)
		call.Signal(t, syscall.SIGHUP)
	}
	plain.ExitCode(t)
	goesOn(kept)
	goesOn(kept)
}

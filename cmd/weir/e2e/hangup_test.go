package e2e_test

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// saysTimes waits until a text was logged so many times.
func (w *weir) saysTimes(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, fmt.Sprintf("weir logs %q %d times", text, times), func() error {
		if n := strings.Count(w.Log.String(), text); n != times {
			return fmt.Errorf("it was logged %d times", n)
		}
		return nil
	})
}

func TestSIGHUPReadsTheConfigurationAgainAndEndsNothing(t *testing.T) {
	t.Parallel()
	w := startWeir(t, largePlan, "DRAIN_DELAY=1h")
	w.Signal(t, syscall.SIGHUP)
	w.saysTimes(t, "configuration unchanged", 1)
	w.configure(t, "- key: plan\n  no_such_key: 7\n")
	w.saysTimes(t, "configuration not loaded", 1)
	w.Signal(t, syscall.SIGHUP)
	w.saysTimes(t, "configuration not loaded", 2) // who asks again is told again what is wrong
	w.configure(t, largePlan+"    shadow_mode: true\n")
	w.saysTimes(t, "configuration loaded", 2)
	if _, err := w.client(t).hit("large", "ann"); err != nil {
		t.Errorf("after SIGHUP: %v", err)
	}

	w.Terminate(t)
	eventually(t, "the drain begins", func() error { return wantStatus(w.admin+"/readyz", 503) })
	for range 3 {
		w.Signal(t, syscall.SIGHUP)
	}
	if _, err := w.client(t).hit("large", "ann"); err != nil {
		t.Errorf("SIGHUP in a drain of an hour: %v; want an answer, as only a second SIGTERM or SIGINT cuts it short", err)
	}
	if err := w.Ended(); err != nil {
		t.Error(err)
	}
	w.saysTimes(t, "as SIGHUP asks", 2)
	w.Terminate(t)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("after a second SIGTERM the exit code is %d, want 0", code)
	}
}

// Whoever serves in the background of a terminal has SIGHUP ignored. It is read all the same, and again ends nothing.
func TestSIGHUPReadsAgainAlsoWhereItWasIgnoredAtTheStart(t *testing.T) {
	t.Parallel()
	w := startWeir(t, largePlan)
	w.Terminate(t)
	w.ExitCode(t)
	w.Process = process.Start(t, "weir", w.env, "/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`, weirBinary, "serve", "--config", w.config)
	w.AwaitReady(t, func() error { return wantStatus(w.admin+"/readyz", 200) })
	w.Signal(t, syscall.SIGHUP)
	w.saysTimes(t, "configuration unchanged", 1)
}

func TestSIGHUPEndsWhatIsStartedAsRatelimit(t *testing.T) {
	t.Parallel()
	w := startRatelimit(t, []string{linked(t, "ratelimit")}, "BACKEND_TYPE=memory")
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
	w := startWeir(t, largePlan)
	line := []string{weirBinary, "call", "--addr", w.addr(), "--domain", "shop", "--descriptor", "plan=large,user=ann",
		"--rate", "10", "--for", "1h"}
	asks := func(call *process.Process) {
		t.Helper()
		before := call.Log.String()
		eventually(t, "the call goes on", func() error {
			if err := call.Ended(); err != nil {
				t.Fatal(err)
			}
			if call.Log.String() == before {
				return fmt.Errorf("it prints no more than %q", before)
			}
			return nil
		})
	}
	plain := process.Start(t, "weir call", nil, line[0], line[1:]...)
	asks(plain)
	plain.Signal(t, syscall.SIGHUP)
	plain.ExitCode(t)

	kept := process.Start(t, "nohup weir call", nil, "/bin/sh", append([]string{"-c", `trap "" HUP; exec "$0" "$@"`}, line...)...)
	asks(kept)
	kept.Signal(t, syscall.SIGHUP)
	asks(kept)
	asks(kept)
	kept.Terminate(t)
	kept.ExitCode(t)
}

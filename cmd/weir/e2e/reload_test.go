package e2e_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

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
func TestHangupReloadsThoughIgnoredBefore(t *testing.T) {
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

func TestHangupEndsWeirStartedAsRatelimit(t *testing.T) {
	t.Parallel()
	w := weirtest.Ratelimit(t, largePlan, "BACKEND_TYPE=memory")
	w.Signal(t, syscall.SIGHUP)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("the exit code is %d, want 0: envoyproxy/ratelimit drains and ends", code)
	}
}

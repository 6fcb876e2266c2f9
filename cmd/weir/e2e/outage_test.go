package e2e_test

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestWhenWeirIsKilledMidRunEnvoyDoesAsItWasTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		promise string
		mode    failureMode
		want    int
	}{
		{"failure_mode_deny off lets requests pass", failOpen, 200},
		{"failure_mode_deny on refuses them with a 500", failClosed, 500},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, `
- key: plan
  value: large
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`)
			e := startEnvoy(t, w, c.mode)
			limited := func() error {
				if a := e.get(t, "/", "", "large", "ann"); a.status != 200 || a.limit != "1000000, 1000000;w=3600" {
					return fmt.Errorf("a request was answered %+v, want 200 with the limit's headers", a)
				}
				return nil
			}
			if err := limited(); err != nil {
				t.Fatalf("before the kill: %v", err)
			}
			time.AfterFunc(50*time.Millisecond, w.Kill)
			for w.Ended() == nil { // some requests are on their way when weir dies
				if a := e.get(t, "/", "", "large", "ann"); a.status != 200 && a.status != c.want {
					t.Fatalf("while weir died a request was answered %d, want 200 or %d", a.status, c.want)
				}
			}
			for range 20 {
				e.get(t, "/", "", "large", "ann").wants(t, c.promise, answer{status: c.want}, -1, -1)
			}
			w.start(t)
			eventually(t, "once weir is back, Envoy asks it again", limited)
		})
	}
}

func TestASpentKeyIsStillDeniedAfterKillAndRestartOnceItWasSaved(t *testing.T) {
	t.Parallel()
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3 }
- key: plan
  value: large
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 1000000 }
`, "DATA_SAVE_INTERVAL=100ms")
	c := w.client(t)
	for range 4 {
		if _, err := c.hit("basic", "ann"); err != nil {
			t.Fatalf("spending the key: %v", err)
		}
	}
	awaitSave(t, w, c)
	w.Kill()
	w.start(t)

	status, err := w.client(t).hit("basic", "ann")
	if err != nil {
		t.Fatalf("asking the restarted weir: %v", err)
	}
	if status.Code.String() != "OVER_LIMIT" {
		t.Errorf("after kill -9 and a restart a spent key is answered %v with %d left, want OVER_LIMIT: counts that were "+
			"saved must not be forgotten", status.Code, status.LimitRemaining)
	}
	if status, err = w.client(t).hit("basic", "bob"); err != nil || status.Code.String() != "OK" {
		t.Errorf("after a restart another user is answered %v (%v), want OK", status, err)
	}
}

// awaitSave returns once a save that began after this call is complete. Another key is hit all the while, so that
// there is something new to save. Saving these few keys takes far less than the second that it waits for.
func awaitSave(t *testing.T, w *weir, c *client) {
	t.Helper()
	began := time.Now()
	eventually(t, "the counters are saved every DATA_SAVE_INTERVAL", func() error {
		if _, err := c.hit("large", "bob"); err != nil {
			return err
		}
		files, err := os.ReadDir(w.data)
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil && info.ModTime().Sub(began) > time.Second {
				return nil
			}
		}
		return fmt.Errorf("no file in DATA_DIR was written a second later: %v", files)
	})
}

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestWhenWeirIsKilledMidRunEnvoyDoesAsItWasTold(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, largePlan)
	told := map[*envoy]int{startEnvoy(t, w, false): 200, startEnvoy(t, w, true): 500} // by what they do without weir
	limited := func(e *envoy) error {
		if a, _ := e.get(t, "/", "large", "ann"); a.status != 200 || a.limit != "100000000, 100000000;w=3600" {
			return fmt.Errorf("a request was answered %+v, want 200 with the limit's headers", a)
		}
		return nil
	}
	for e := range told {
		if err := limited(e); err != nil {
			t.Fatalf("before the kill: %v", err)
		}
	}
	time.AfterFunc(50*time.Millisecond, w.Kill)
	for w.Ended() == nil { // some requests are on their way when weir dies
		for e, without := range told {
			if a, _ := e.get(t, "/", "large", "ann"); a.status != 200 && a.status != without {
				t.Fatalf("while weir died a request was answered %d, want 200 or %d", a.status, without)
			}
		}
	}
	for e, without := range told {
		for range 20 {
			e.wants(t, "failure_mode_deny decides", "/", "large", "ann", answer{status: without})
		}
	}
	w.Restart(t)
	for e := range told {
		weirtest.Eventually(t, "once weir is back, Envoy asks it again", func() error { return limited(e) })
	}
}

func TestASpentKeyIsStillDeniedAfterKillAndRestartOnceItWasSaved(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := weirtest.Serve(t, weirtest.Rule("basic", "unit: hour, requests_per_unit: 3")+largePlan, "DATA_DIR="+data, "DATA_SAVE_INTERVAL=100ms")
	hits(t, w.Client(t), 4, "basic", "ann")
	awaitSaves(t, w.Client(t), data)
	w.Kill()
	w.Restart(t)

	c := w.Client(t)
	if status, err := c.Hit("basic", "ann"); err != nil || status.Code.String() != "OVER_LIMIT" {
		t.Errorf("after kill -9 and a restart a spent key is answered %v (%v), want OVER_LIMIT: counts that were saved must not "+
			"be forgotten", status, err)
	}
	if status, err := c.Hit("basic", "bob"); err != nil || status.Code.String() != "OK" {
		t.Errorf("after a restart another user is answered %v (%v), want OK", status, err)
	}
}

// awaitSaves returns once the file of counters was replaced twice: the second save began after this call. Another key is
// hit all the while, so that there is something new to save.
func awaitSaves(t *testing.T, c *weirtest.Client, dir string) {
	t.Helper()
	var last time.Time
	saves := -1 // that of before
	weirtest.Eventually(t, "the counters are saved every DATA_SAVE_INTERVAL", func() error {
		hits(t, c, 1, "large", "bob")
		file, err := os.Stat(filepath.Join(dir, "counters"))
		if err == nil && !file.ModTime().Equal(last) {
			last, saves = file.ModTime(), saves+1
		}
		if saves < 2 {
			return fmt.Errorf("%d saves were seen (%v)", saves, err)
		}
		return nil
	})
}

// hits sends hits that are answered, whatever the verdict.
func hits(t *testing.T, c *weirtest.Client, n int, plan, user string) {
	t.Helper()
	for range n {
		if _, err := c.Hit(plan, user); err != nil {
			t.Fatalf("asking weir: %v", err)
		}
	}
}

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

var tenAnHour = weirtest.Rule("basic/1", "unit: hour, requests_per_unit: 10")

// expectLifetime wants the history to hold so many hits within their limit, exactly, within some flushes.
func expectLifetime(t *testing.T, w *weirtest.Weir, want uint64) {
	t.Helper()
	weirtest.Eventually(t, fmt.Sprintf("the history holds %d hits", want), func() error {
		hits, err := w.Lifetimes()
		if err == nil && hits["within"] != want {
			err = fmt.Errorf("it has %v", hits)
		}
		return err
	})
}

func TestDamagedHistoryFileDoesNotStopLimiting(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	w := weirtest.Serve(t, largePlan, "DATA_DIR="+data, "HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	hits(t, w.Client(t), 3, "large", "ann")
	w.Drain(t)
	path := filepath.Join(data, filehistory.Name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := whole[:len(whole)*3/8]
	if err := os.WriteFile(path, torn, 0o600); err != nil {
		t.Fatal(err)
	}

	w.Restart(t)
	w.Says(t, "level=WARN", path, "is damaged", "move the file away")
	hits(t, w.Client(t), 5, "large", "ann") // whatever the history does, the limiter is unharmed
	if c, err := w.Lifetimes(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("the API answers %+v, %v, want the reason why there is no history", c, err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(torn) {
		t.Errorf("the torn file has been changed (%v): nobody may make it worse", err)
	}
	// Whoever moves the file away gets what has waited meanwhile.
	if err := os.Rename(path, path+".torn"); err != nil {
		t.Fatal(err)
	}
	w.Drain(t)
	w.Restart(t)
	expectLifetime(t, w, 5)
	w.Drain(t)
	if err := os.WriteFile(path, whole, 0o600); err != nil { // as from a copy
		t.Fatal(err)
	}
	w.Restart(t)
	expectLifetime(t, w, 3)
}

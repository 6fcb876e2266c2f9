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

// curve is what GET /api/v1/history answers, as far as these tests look at it.
type curve struct {
	Series []struct {
		Path, Outcome string
		Lifetime      uint64
		Points        []struct{ Sum uint64 }
	}
}

// kept asks weir for all that it keeps, as it is stored.
func kept(w *weirtest.Weir) (c curve, err error) {
	return c, weirtest.GetJSON(w.Admin+"/api/v1/history?from=0&domain=shop", &c)
}

// expectLifetime wants the history to hold so many hits of the rule, exactly, within some flushes.
func expectLifetime(t *testing.T, w *weirtest.Weir, want uint64) {
	t.Helper()
	weirtest.Eventually(t, fmt.Sprintf("the history holds %d hits", want), func() error {
		is, err := kept(w)
		if err != nil || len(is.Series) != 1 || is.Series[0].Lifetime != want {
			return fmt.Errorf("it answers %+.300v, %w", is, err)
		}
		var sum uint64
		for _, p := range is.Series[0].Points {
			sum += p.Sum
		}
		if sum != want {
			t.Errorf("points make %d of %d hits", sum, want)
		}
		return nil
	})
}

func TestATornHistoryFileIsSaidAndLeftAloneWhileWeirLimits(t *testing.T) {
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
	if c, err := kept(w); err == nil || !strings.Contains(err.Error(), "is damaged") {
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

package historycmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/demo"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

func TestADemoFillsAnEmptyHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv("DATA_DIR", dir)
	const days, until = 4, "2026-11-21T12:00:00Z"
	got, err := runHistory(t, "demo", "--days", "4", "--until", until)
	if err != nil || !strings.Contains(got, "Made up 4 days") || !strings.Contains(got, "weir history top --from -7d") {
		t.Fatalf("weir history demo prints %q, %v", got, err)
	}
	sums, hits := make(map[history.ID]uint64), uint64(0)
	at, _ := time.Parse(time.RFC3339, until)
	_ = demo.Buckets(at, days, history.DefaultKeep(), func(id history.ID, p history.Point) error {
		sums[id] += p.Sum
		if !id.Outcome.IsPart() {
			hits += p.Sum
		}
		return nil
	})
	if want := ": " + terminal.Thousands(hits) + " hits.\n"; !strings.Contains(got, want) {
		t.Errorf("weir history demo prints %q, want %q: near and shadow hits are parts of others", got, want)
	}
	store, err := filehistory.Open(filehistory.Config{Dir: dir, Keep: history.DefaultKeep()})
	if err != nil {
		t.Fatal(err)
	}
	found := historytest.All(t, store)
	for id, sum := range sums {
		if s := found[id]; s.Lifetime != sum || !s.Exact() {
			t.Errorf("%+v holds %d hits (%v), want %d", id, s.Lifetime, s.Err, sum)
		}
	}
	for _, name := range []string{"shop.yaml", "mail.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, "demo-config", name)); err != nil {
			t.Errorf("the demo does not write the rules that it is of: %v", err)
		}
	}
	if _, err := runHistory(t, "demo"); err == nil || !strings.Contains(err.Error(), "in use by another weir") {
		t.Errorf("a history that a weir serve has is filled: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = runHistory(t, "demo"); err == nil || !strings.Contains(err.Error(), "it holds ") {
		t.Errorf("a history that holds something is filled: %v", err)
	}
}

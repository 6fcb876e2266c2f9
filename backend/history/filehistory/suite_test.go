package filehistory

import (
	"cmp"
	"flag"
	"os"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

var (
	steps   = flag.Int("steps", 2000, "steps of the random walks, a third in the short form")
	damages = flag.Int("damages", 100, "how many files are damaged, a third in the short form")
	seed    = flag.Uint64("seed", 1, "seed of the random walks")
)

// third is n, or a third of it in the short form.
func third(n int) int {
	if testing.Short() {
		return n / 3
	}
	return n
}

// opened is a store that is closed when its test ends, if not before. It keeps what is usual unless told otherwise.
func opened(t testing.TB, open func(Config) (*Store, error), c Config) *Store {
	t.Helper()
	c.Retention = cmp.Or(c.Retention, history.DefaultRetention())
	s, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func config(dir string, o historytest.Options) Config {
	return Config{Dir: dir, Retention: o.Retention, Now: o.Now, Step: o.Step}
}

func TestFilePassesTheSuite(t *testing.T) {
	t.Parallel()
	historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
		s := opened(t, Open, config(t.TempDir(), o))
		s.db.NoSync = true // nothing here waits for a disk: TestKilledProcessLeavesEachHitOnce does
		return s
	}, historytest.Depth{Steps: third(*steps), Seed: *seed})
}

// A store in memory is the same code over another file, so in the short form it passes a part of the suite.
func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	before, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
		return opened(t, InMemory, config("/nowhere", o))
	}, historytest.Depth{Steps: *steps, Seed: *seed, Routing: testing.Short()})
	if after, err := os.ReadDir("."); err != nil || len(after) != len(before) {
		t.Errorf("the directory had %d entries and has %d (%v): a store in memory leaves no file",
			len(before), len(after), err)
	}
}

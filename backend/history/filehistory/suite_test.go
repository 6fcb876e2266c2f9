package filehistory

import (
	"flag"
	"math"
	"os"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/historytest"
	"github.com/weirproxy/weir/backend/history"
)

var (
	steps   = flag.Int("steps", 2000, "steps of the random walks")
	damages = flag.Int("damages", 100, "how many files are damaged")
	seed    = flag.Uint64("seed", 0, "seed of the random walks; 0 for the clock")
)

// everything is a query for all there is.
var everything = history.Query{From: math.MinInt64, To: math.MaxInt64}

func depth(t *testing.T) historytest.Depth {
	d := historytest.Depth{Steps: *steps, Seed: *seed}
	if d.Seed == 0 {
		d.Seed = uint64(time.Now().UnixNano())
	}
	t.Logf("walks with -seed %d", d.Seed)
	return d
}

// ready closes a store when its test ends.
func ready(t testing.TB, s *Store, err error) *Store {
	t.Helper()
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
	return Config{Dir: dir, Keep: o.Keep, Now: o.Now, Step: o.Step}
}

func TestFilePassesTheSuite(t *testing.T) {
	t.Parallel()
	historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
		s, err := Open(config(t.TempDir(), o))
		return ready(t, s, err)
	}, depth(t))
}

func TestMemoryPassesTheSuite(t *testing.T) {
	t.Parallel()
	before, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	historytest.Run(t, func(t *testing.T, o historytest.Options) history.Store {
		s, err := InMemory(config("/nowhere", o))
		return ready(t, s, err)
	}, depth(t))
	if after, err := os.ReadDir("."); err != nil || len(after) != len(before) {
		t.Errorf("the directory had %d entries and has %d (%v): a store in memory leaves no file",
			len(before), len(after), err)
	}
}

package memory

import (
	"flag"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
)

var (
	steps = flag.Int("steps", defaultSteps, "random steps of the conformance suite")
	seed  = flag.Uint64("seed", 1, "seed of the conformance suite")
)

// clock is a clock that stands still until it is set.
type clock struct{ micros atomic.Int64 }

func (c *clock) set(t window.Instant) { c.micros.Store(int64(t)) }
func (c *clock) now() time.Time       { return time.UnixMicro(c.micros.Load()) }

func open(t testing.TB, c Config) (*Store, *clock) {
	t.Helper()
	clk := new(clock)
	clk.set(window.At(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	if c.Now == nil {
		c.Now = clk.now
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 1_000_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, clk
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) backendtest.Store {
		s, clk := open(t, Config{})
		return backendtest.Store{Counter: s, SetTime: clk.set, Buckets: s.buckets}
	}, backendtest.Options{Steps: *steps, Seed: *seed})
}

// buckets is how many cells are held for a key.
func (s *Store) buckets(key []byte) int {
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n := 0
	if e := sh.entries[string(key)]; e != nil {
		for _, s := range e.states {
			n += s.Len()
		}
	}
	return n
}

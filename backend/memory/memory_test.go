package memory

import (
	"flag"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var (
	steps = flag.Int("steps", 20_000, "random steps of the conformance suite; make soak walks a million")
	seed  = flag.Uint64("seed", 1, "seed of the conformance suite")
	flood = flag.Int("flood", 30_000, "how many keys flood a store that has room for a tenth of them; make soak sends ten million")
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
	s := Open(c)
	t.Cleanup(func() { s.Close() })
	return s, clk
}

func TestConformance(t *testing.T) {
	o := backendtest.Options{Steps: *steps, Seed: *seed}
	if testing.Short() {
		o.Steps /= 2
	}
	backendtest.Run(t, func(t *testing.T) backendtest.Store {
		s, clk := open(t, Config{})
		return backendtest.Store{Counter: s, SetTime: clk.set, Buckets: s.buckets}
	}, o)
}

func TestInspectionPassesTheSuite(t *testing.T) {
	s, clk := open(t, Config{})
	backendtest.Inspection(t, s, clk.set)
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are held after a reset; their room would be lost", n)
	}
}

// buckets returns how many buckets are held for a key, of some limits.
func (s *Store) buckets(key []byte, limits []descriptors.Limit) int {
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[string(key)]; e != nil {
		return backendtest.Held(e.states, limits)
	}
	return 0
}

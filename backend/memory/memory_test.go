package memory

import (
	"flag"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
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
		return backendtest.Store{Counter: s, SetTime: clk.set,
			Buckets: func(key []byte, _ []descriptors.Limit) int { return s.buckets(key) }}
	}, o)
}

func TestInspect(t *testing.T) {
	s, clk := open(t, Config{})
	backendtest.Inspection(t, backendtest.Inspected{Counter: s, Inspector: s, SetTime: clk.set})
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are held after a reset; their room would be lost", n)
	}
}

// A key that stays hot under a new configuration holds what the old one has counted until that no longer counts.
func TestADroppedLimitLeavesAHotKeyWhenItsTimeIsUp(t *testing.T) {
	for _, a := range []descriptors.Algorithm{descriptors.SlidingWindow, descriptors.FixedWindow, descriptors.SlidingLog} {
		s, clk := open(t, Config{})
		old := backendtest.NewLimit(t, 10, descriptors.Minute, 1, a, 0)
		next := backendtest.NewLimit(t, 1000, descriptors.Hour, 1, a, 0)
		hit := func(l descriptors.Limit) {
			check := backend.Check{Key: []byte("hot"), Limits: []descriptors.Limit{l}, Hits: 1}
			if err := backend.DecideAll(t.Context(), s, []backend.Check{check}, make([]backend.Decision, 1)); err != nil {
				t.Fatal(err)
			}
		}
		begin, counts := s.now(), old.Window+old.Precision
		hit(old)
		for second := range int(counts / time.Second) {
			clk.set(begin.Plus(time.Duration(second) * time.Second))
			hit(next)
		}
		clk.set(begin.Plus(counts) - 1)
		hit(next)
		if !s.holds("hot", &old) {
			t.Errorf("%v is gone while its hit counts: a configuration that comes back would start from nothing", old)
		}
		clk.set(begin.Plus(counts))
		hit(next)
		if s.holds("hot", &old) || !s.holds("hot", &next) {
			t.Errorf("%v was dropped and its hit counts no more: want it gone, and %v there", old, next)
		}
	}
}

// holds reports whether a key has a state of a limit.
func (s *Store) holds(key string, l *descriptors.Limit) bool {
	sh := &s.shards[s.shardOf([]byte(key))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.entries[key]
	return e != nil && e.states.Of(l) != nil
}

// buckets returns how many cells are held for a key.
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

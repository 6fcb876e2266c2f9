// Package memory is the embedded store. It counts in this process, for a bounded number of keys, and saves the counts
// to a directory at intervals, so that a restart loses little.
//
// When the store is full, a new key replaces a key below its limit, whose count is lost. Keys over their limits stay,
// so that a flood of new keys lets no caller in. If 512 keys are all over their limits, the one of them that reopens
// first is evicted. [Stats] counts both.
package memory

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
)

// shards is the number of shards, each with its lock; a power of two.
const shards = 256

// sweepsPerSecond is how many shards are swept each second, so that each is swept within a minute.
const sweepsPerSecond = 5

// Config configures a store.
type Config struct {
	// MaxKeys bounds the number of keys; at least 1. A key of 40 bytes and one limit takes about 250 bytes, and 16 more
	// for each bucket with hits beyond the first.
	MaxKeys int
	// Dir is the directory in which counters are saved, "" for none. Open makes it if it is missing.
	Dir string
	// SaveEvery is the interval between saves. If it is 0, only Close saves.
	SaveEvery time.Duration
	// Now is the store's clock; nil is the wall clock.
	Now func() time.Time
	Log *slog.Logger // required if Dir is set
}

// Stats are totals since the start, except Keys.
type Stats struct {
	Keys        int64  // number of keys now
	EvictedOpen uint64 // keys with room left that were evicted, with their counts
	EvictedOver uint64 // keys over their limits that were evicted
}

// Store is a backend.Counter in this process.
type Store struct {
	config Config
	seed   maphash.Seed
	shards [shards]shard

	keys, evictedOpen, evictedOver atomic.Int64
	swept                          atomic.Uint64 // number of sweeps of shards since the start

	closed  atomic.Bool
	stop    context.CancelFunc
	running sync.WaitGroup
	lock    *os.File // of the directory; nil if nothing is saved
}

// shard has the keys of one lock. Read the clock under the lock: a goroutine that read it before and had to wait would
// count at a time before the last hits.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
}

var _ backend.Counter = (*Store)(nil)

// Open makes a store and loads the counters that were saved in its directory. If the directory cannot be used, or the
// file is torn, it logs a warning, and the store works without them.
func Open(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Store{config: c, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].entries = make(map[string]*entry)
	}
	if c.Dir != "" {
		s.openDir()
	}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(func() { s.every(ctx, time.Second, s.sweep) })
	if c.Dir != "" && c.SaveEvery > 0 {
		s.running.Go(func() { s.every(ctx, c.SaveEvery, s.saveOrWarn) })
	}
	return s
}

// every calls f at each interval until ctx ends.
func (s *Store) every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.Tick(interval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			f()
		}
	}
}

// Close saves the counters. Hits of concurrent calls of Decide may not be saved.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	s.running.Wait()
	if s.lock == nil {
		return nil
	}
	return errors.Join(s.save(), s.lock.Close())
}

// Stats returns the number of keys, and how many were evicted.
func (s *Store) Stats() Stats {
	return Stats{Keys: s.keys.Load(), EvictedOpen: uint64(s.evictedOpen.Load()), EvictedOver: uint64(s.evictedOver.Load())}
}

func (s *Store) now() window.Instant { return window.At(s.config.Now()) }

// Decide implements [backend.Counter]. It waits only for the locks of the keys' shards.
func (s *Store) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Validate(checks, out); err != nil {
		return err
	}
	if s.closed.Load() {
		return backend.ErrClosed
	}
	for i := range checks {
		home := s.shardOf(checks[i].Key)
		added, now := s.decideIn(&s.shards[home], &checks[i], &out[i])
		if added != nil {
			s.makeRoom(home, added, now)
		}
	}
	return nil
}

// decideIn decides a check in its key's shard, and returns the entry if it is new.
func (s *Store) decideIn(sh *shard, c *backend.Check, out *backend.Decision) (added *entry, now window.Instant) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.now()
	e := sh.entries[string(c.Key)]
	exists := e != nil
	if !exists {
		e = newEntry(string(c.Key), len(c.Limits))
	}
	*out = e.apply(c, now)
	switch hasHits := e.expires != 0; {
	case exists && !hasHits:
		delete(sh.entries, e.key)
		s.keys.Add(-1)
	case hasHits && !exists:
		sh.entries[e.key] = e
		s.keys.Add(1)
		added = e
	}
	return added, now
}

func (s *Store) shardOf(key []byte) int {
	return int(maphash.Bytes(s.seed, key) & (shards - 1))
}

// sweep deletes the keys without hits that count, in some of the shards.
func (s *Store) sweep() {
	for range sweepsPerSecond {
		s.keys.Add(-s.shards[s.swept.Add(1)%shards].sweep(s.now))
	}
}

// sweep deletes the keys without hits that count, and returns their number. In other keys it moves hits after now into
// now: after the clock stepped back, an unused key would else stay until its hits' moment has come again.
func (sh *shard) sweep(clock func() window.Instant) (deleted int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := clock()
	for key, e := range sh.entries {
		if e.rewind(now); e.expires == 0 {
			delete(sh.entries, key)
			deleted++
		}
	}
	return deleted
}

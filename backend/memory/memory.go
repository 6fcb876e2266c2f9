// Package memory is the embedded store: counts in this process, bounded by a number of keys, and saved to a directory at
// intervals so that a restart loses little.
//
// When it is full, a new key replaces one below its limit, whose count is lost. Keys over their limits stay, so that a
// flood of new keys resets no count. Only if 512 keys are all over their limits is one of them evicted, the one that
// reopens first. [Stats] counts both.
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

// shards is the number of locks that share the keys; a power of two.
const shards = 256

// sweptAtOnce is how many shards are swept each second, so that all are within a minute.
const sweptAtOnce = 5

// Config configures a store.
type Config struct {
	// MaxKeys is the most keys that it holds. A key of 40 bytes and one limit takes about 250 bytes, and 16 more
	// for each bucket beyond the first that holds hits. At least 1.
	MaxKeys int
	// Dir is where counters are saved, "" for nowhere. Open makes it if it is missing.
	Dir string
	// SaveEvery is the time between two saves; 0 saves only on Close.
	SaveEvery time.Duration
	// Now is the store's clock; nil is the wall clock.
	Now func() time.Time
	Log *slog.Logger // needed with Dir
}

// Stats are totals since the start, except Keys.
type Stats struct {
	Keys        int64  // keys held now
	EvictedOpen uint64 // keys with room left that were evicted, with their counts
	EvictedOver uint64 // keys over their limit that were evicted, as all keys seen were over theirs
}

// Store is a backend.Counter in this process.
type Store struct {
	config Config
	seed   maphash.Seed
	shards [shards]shard

	keys, evictedOpen, evictedOver atomic.Int64
	swept                          atomic.Uint64 // shards swept since the start

	closed  atomic.Bool
	stop    context.CancelFunc
	running sync.WaitGroup
	lock    *os.File // of the directory; nil if nothing is saved
}

// shard holds the keys of one lock. Read the clock under the lock: for a goroutine that read it before and had to wait,
// time would seem to step back.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry
}

var _ backend.Counter = (*Store)(nil)

// Open makes a store and loads what was saved in its directory. A directory that cannot be used, or a torn file, is
// logged as a warning, and the store counts without it.
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

// Close saves the counters and ends the store. Hits of concurrent calls of Decide may not be saved.
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

// Stats returns how full the store is, and how many keys it evicted.
func (s *Store) Stats() Stats {
	return Stats{Keys: s.keys.Load(), EvictedOpen: uint64(s.evictedOpen.Load()), EvictedOver: uint64(s.evictedOver.Load())}
}

func (s *Store) now() window.Instant { return window.At(s.config.Now()) }

// Decide answers at once: it waits only for the lock of a key's shard.
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

// decideIn decides a check in its key's shard, and returns the entry if it is new. It reads the clock under the lock, as
// shard demands: otherwise newer hits would be folded into an old bucket.
func (s *Store) decideIn(sh *shard, c *backend.Check, out *backend.Decision) (added *entry, now window.Instant) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now = s.now()
	e := sh.entries[string(c.Key)]
	known := e != nil
	if !known {
		e = newEntry(string(c.Key), len(c.Limits))
	}
	*out = e.apply(c, now)
	switch holds := e.expires != 0; {
	case known && !holds:
		delete(sh.entries, e.key)
		s.keys.Add(-1)
	case holds && !known:
		sh.entries[e.key] = e
		s.keys.Add(1)
		added = e
	}
	return added, now
}

func (s *Store) shardOf(key []byte) int {
	return int(maphash.Bytes(s.seed, key) & (shards - 1))
}

// sweep deletes the keys of some shards in which nothing counts.
func (s *Store) sweep() {
	for range sweptAtOnce {
		s.keys.Add(-s.shards[s.swept.Add(1)%shards].sweep(s.now))
	}
}

// sweep deletes the keys in which nothing counts, and returns their number. In the others it moves hits after now into now:
// after a step back of the clock, a key that nobody asks for would otherwise stay until then.
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

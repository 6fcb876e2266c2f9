package guard

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// maxDenialTime is how long a denial is cached at most, and thus how long this replica may not notice a reset or
	// refund by another one.
	maxDenialTime = time.Second
	// denialShards is the number of shards, each with its own lock; a power of two.
	denialShards = 64
	// minDenials is the least capacity of a shard, in keys.
	minDenials = 1024
	// bytesPerDenial is the approximate memory of a key: 60 bytes of text, its limit, and its entry in a map.
	bytesPerDenial = 320
)

// denyCache holds recent denials of the store. A denial of h hits is valid for counts of at least h hits of the same key
// under the same limits: fewer hits may fit.
type denyCache struct {
	seed       maphash.Seed
	cacheFixed bool // cache denials of a fixed window that charges denied hits, until it ends
	capacity   int  // of a shard, in keys
	shards     [denialShards]denialShard
}

type denialShard struct {
	mu        sync.RWMutex
	denials   map[string]denial
	size      atomic.Int32  // len(denials)
	evictions atomic.Uint64 // number of calls of evict
}

// denial is a denial by the store. Its times are on the monotonic clock.
type denial struct {
	limits    []descriptors.Limit
	hits      uint64
	until     time.Time // expiry of the denial
	retry     time.Time // when a check of as many hits may fit
	strictest int
	before    uint64
}

// denialSlot is where a check's denial may be cached. The zero value means that it must not be cached.
type denialSlot struct {
	shard     *denialShard
	evictions uint64 // shard.evictions before the check was sent to the store
}

// init allocates the cache. bytes is [Config.FixedWindowBytes].
func (d *denyCache) init(bytes int64) {
	d.seed, d.cacheFixed = maphash.MakeSeed(), bytes > 0
	d.capacity = max(minDenials, int(bytes/bytesPerDenial/denialShards))
	for i := range d.shards {
		d.shards[i].denials = make(map[string]denial)
	}
}

func (d *denyCache) shard(key []byte) *denialShard {
	return &d.shards[maphash.Bytes(d.seed, key)&(denialShards-1)]
}

// lookUp denies a check whose denial is cached, and returns the slot of its denial. Denials of looks, of refunds and of
// checks that charge denied hits are not cached, except the last with one fixed window if cacheFixed is set.
func (d *denyCache) lookUp(c *backend.Check, now time.Time, out *backend.Decision) (slot denialSlot, denied bool) {
	cacheable := d.cacheFixed && len(c.Limits) == 1 && c.Limits[0].Algorithm == descriptors.FixedWindow
	if c.Op != backend.Count || len(c.Key) > maxKey || c.ChargesAlways() && !cacheable {
		return denialSlot{}, false
	}
	sh := d.shard(c.Key)
	slot = denialSlot{sh, sh.evictions.Load()}
	if sh.size.Load() == 0 {
		return slot, false
	}
	sh.mu.RLock()
	cached, found := sh.denials[string(c.Key)]
	sh.mu.RUnlock()
	if denied = found && cached.covers(c, now); denied {
		*out = cached.decision(c, now)
	}
	return slot, denied
}

// covers reports whether the denial is valid for this check.
func (d *denial) covers(c *backend.Check, now time.Time) bool {
	return now.Before(d.until) && d.hits <= c.Hits && slices.Equal(d.limits, c.Limits)
}

// decision returns the cached denial as the answer to a check. A check of more hits has to wait at least as long.
func (d *denial) decision(c *backend.Check, now time.Time) backend.Decision {
	wait := max(0, d.retry.Sub(now))
	retry := wait
	if neverFits(c) {
		retry = backend.Never
	}
	return backend.Decision{Source: backend.FromDenyCache, Strictest: d.strictest, Before: d.before, ResetIn: wait, RetryIn: retry}
}

// add caches a denial until a check of its size may fit, but at most for maxDenialTime and for the Precision of a limit,
// from when the check was sent. A fixed window that charges denied hits is full until it ends, for any number of hits.
// add does nothing if the key was evicted after the check was sent.
func (d *denyCache) add(c *backend.Check, decision *backend.Decision, slot denialSlot, sentAt, now time.Time) {
	sh := slot.shard
	if sh == nil {
		return
	}
	hits, before, lifetime := c.Hits, decision.Before, min(decision.RetryIn, maxDenialTime)
	if c.ChargesAlways() { // the denied hits count too, so not even one more hit fits
		hits, before, lifetime = 1, decision.Before+c.Hits, decision.ResetIn
	}
	for i := range c.Limits {
		if p := c.Limits[i].Precision; p > 0 {
			lifetime = min(lifetime, p)
		}
	}
	fresh := denial{hits: hits, until: sentAt.Add(lifetime), retry: now.Add(decision.ResetIn),
		strictest: decision.Strictest, before: before}
	if !now.Before(fresh.until) {
		return
	}
	fresh.limits = slices.Clone(c.Limits) // the request owns the limits of an override
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.evictions.Load() != slot.evictions {
		return
	}
	old, found := sh.denials[string(c.Key)]
	if found && now.Before(old.until) && old.hits < fresh.hits && slices.Equal(old.limits, fresh.limits) {
		return // the cached denial covers more checks
	}
	sh.makeRoom(now, d.capacity)
	sh.denials[string(c.Key)] = fresh
	sh.size.Store(int32(len(sh.denials)))
}

// makeRoom removes expired denials from a full shard or, if it finds none, any denial. The caller holds mu.
func (sh *denialShard) makeRoom(now time.Time, capacity int) {
	last := ""
	whileFull(sh.denials, capacity, func(key string, d denial) {
		if last = key; !now.Before(d.until) {
			delete(sh.denials, key)
		}
	})
	if len(sh.denials) >= capacity {
		delete(sh.denials, last)
	}
}

// whileFull calls do for at most 16 entries of a map, while the map is full. do may delete the entry.
func whileFull[K comparable, V any](m map[K]V, capacity int, do func(K, V)) {
	seen := 0
	for key, v := range m {
		if len(m) < capacity || seen == 16 {
			return
		}
		seen++
		do(key, v)
	}
}

// evict removes the denial of a key, and prevents add from caching one of a check that the store is still deciding.
func (d *denyCache) evict(key []byte) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.evictions.Add(1)
	delete(sh.denials, string(key))
	sh.size.Store(int32(len(sh.denials)))
}

// keys returns the number of cached denials, expired ones included.
func (d *denyCache) keys() (n int) {
	for i := range d.shards {
		n += int(d.shards[i].size.Load())
	}
	return n
}

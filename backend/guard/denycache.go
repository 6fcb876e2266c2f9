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
	// longestDenial is how long a denial is believed at most: so long a reset, a refund or a grant that another replica
	// makes may go unnoticed here.
	longestDenial = time.Second
	// denialShards is how many locks the keys are spread over; a power of two.
	denialShards = 64
	// minDenials is how many keys a shard has room for at least.
	minDenials = 1024
	// bytesADenial is what a key takes, roughly: 60 bytes of its own, its limit, and its place in a map.
	bytesADenial = 320
)

// denyCache holds what the store has just denied. A denial of h hits holds for counts of h hits and more of the same
// key under the same limits: fewer may fit, and other limits are another question.
type denyCache struct {
	seed      maphash.Seed
	keepFixed bool // of fixed windows that count what they deny, denials are kept, too, until the window ends
	capacity  int  // keys of a shard
	shards    [denialShards]denialShard
}

type denialShard struct {
	mu        sync.RWMutex
	denials   map[string]denial
	size      atomic.Int32  // of denials
	evictions atomic.Uint64 // calls of evict
}

// denial is one that the store gave. Its times are on the monotonic clock.
type denial struct {
	limits    []descriptors.Limit
	hits      uint64
	until     time.Time // it is believed
	retry     time.Time // when a check of so many hits may fit
	strictest int
	before    uint64
}

// denialPlace is where the denial of a check is kept; the zero value is nowhere.
type denialPlace struct {
	shard     *denialShard
	evictions uint64 // of the shard, before the store was asked
}

// init makes room. With bytes, which may be 0, denials of fixed windows are kept as well.
func (d *denyCache) init(bytes int64) {
	d.seed, d.keepFixed = maphash.MakeSeed(), bytes > 0
	d.capacity = max(minDenials, int(bytes/bytesADenial/denialShards))
	for i := range d.shards {
		d.shards[i].denials = make(map[string]denial)
	}
}

func (d *denyCache) shard(key []byte) *denialShard {
	return &d.shards[maphash.Bytes(d.seed, key)&(denialShards-1)]
}

// lookUp decides a check if it is known now to be denied, and returns where its denial is kept. Looks and refunds have to
// ask the store, and so has what charges denied hits, unless that is for one fixed window whose denials are kept.
func (d *denyCache) lookUp(c *backend.Check, now time.Time, out *backend.Decision) (place denialPlace, denied bool) {
	kept := d.keepFixed && len(c.Limits) == 1 && c.Limits[0].Algorithm == descriptors.FixedWindow
	if c.Op != backend.Count || len(c.Key) > maxKey || c.ChargesAlways() && !kept {
		return denialPlace{}, false
	}
	sh := d.shard(c.Key)
	place = denialPlace{sh, sh.evictions.Load()}
	if sh.size.Load() == 0 {
		return place, false
	}
	sh.mu.RLock()
	known, found := sh.denials[string(c.Key)]
	sh.mu.RUnlock()
	if denied = found && known.covers(c, now); denied {
		*out = known.decision(c, now)
	}
	return place, denied
}

// covers reports whether the denial is one of this check, too.
func (k *denial) covers(c *backend.Check, now time.Time) bool {
	return now.Before(k.until) && k.hits <= c.Hits && slices.Equal(k.limits, c.Limits)
}

// decision returns the denial of a check as it is now. One of more hits than were denied has to wait at least as long.
func (k *denial) decision(c *backend.Check, now time.Time) backend.Decision {
	wait := max(0, k.retry.Sub(now))
	retry := wait
	if neverFits(c) {
		retry = backend.Never
	}
	return backend.Decision{Source: backend.FromDenyCache, Strictest: k.strictest, Before: k.before, ResetIn: wait, RetryIn: retry}
}

// remember keeps a denial for as long as it holds, counted from when the store was asked: until a check of its size may
// fit, but no longer than one precision of a sliding window, and a second. A fixed window that counts what it denies is
// full until it ends, for whatever number of hits. The denial is not kept if the key may have been evicted meanwhile.
func (d *denyCache) remember(c *backend.Check, given *backend.Decision, place denialPlace, asked, now time.Time) {
	sh := place.shard
	if sh == nil {
		return
	}
	hits, before, holds := c.Hits, given.Before, min(given.RetryIn, longestDenial)
	if c.ChargesAlways() { // what was denied counts, so there is no room for any number of hits
		hits, before, holds = 1, given.Before+c.Hits, given.ResetIn
	}
	for i := range c.Limits {
		if p := c.Limits[i].Precision; p > 0 {
			holds = min(holds, p)
		}
	}
	k := denial{hits: hits, until: asked.Add(holds), retry: now.Add(given.ResetIn),
		strictest: given.Strictest, before: before}
	if !now.Before(k.until) {
		return
	}
	k.limits = slices.Clone(c.Limits) // those of an override are the request's
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.evictions.Load() != place.evictions {
		return
	}
	old, found := sh.denials[string(c.Key)]
	if found && now.Before(old.until) && old.hits < k.hits && slices.Equal(old.limits, k.limits) {
		return // it denies more
	}
	sh.makeRoom(now, d.capacity)
	sh.denials[string(c.Key)] = k
	sh.size.Store(int32(len(sh.denials)))
}

// makeRoom removes a denial from a full shard, one that has ended if it meets one. The caller holds mu.
func (sh *denialShard) makeRoom(now time.Time, capacity int) {
	last := ""
	whileFull(sh.denials, capacity, func(key string, k denial) {
		if last = key; !now.Before(k.until) {
			delete(sh.denials, key)
		}
	})
	if len(sh.denials) >= capacity {
		delete(sh.denials, last)
	}
}

// whileFull calls do, which may delete it, for one entry of a map after the other while the map is full: 16 at most.
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

// evict removes the denial of a key. One that the store has still to give is not kept.
func (d *denyCache) evict(key []byte) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.evictions.Add(1)
	delete(sh.denials, string(key))
	sh.size.Store(int32(len(sh.denials)))
}

// keys returns how many keys a denial is kept of, whether it still holds or not.
func (d *denyCache) keys() (n int) {
	for i := range d.shards {
		n += int(d.shards[i].size.Load())
	}
	return n
}

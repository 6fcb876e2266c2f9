package memory

import "github.com/weirproxy/weir/backend/window"

// An eviction looks at maxLooks keys at most, looksAShard in each shard. If nine keys of ten are over their limits, six
// shards of ten show only such keys after a long flood; an eviction then finds no other key once in 10¹⁵ times.
const maxLooks, looksAShard = 512, 8

// makeRoom evicts keys until at most MaxKeys are held, but never the newcomer.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne evicts one key, and reports whether it found any beside the newcomer. It looks at a few random keys of each
// shard, the newcomer's first. Of the first ones with room left it evicts the one that expires first; if it sees none, the
// key that reopens first. With more looks a shard, keys with room left would gather in some stretches of the map, as each
// would lose as many keys as it gets.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	var first victim // the first to reopen of the keys over their limits
	for i, looks := 0, 0; i < shards && looks < maxLooks; i++ {
		sh := &s.shards[(home+i)&(shards-1)]
		e, looked := sh.evictOpen(newcomer, now, &first)
		if looks += looked; e != nil {
			s.keys.Add(-1)
			if e.expires > now {
				s.evictedOpen.Add(1)
			}
			return true
		}
	}
	if first.entry == nil {
		return false
	}
	first.shard.mu.Lock()
	defer first.shard.mu.Unlock()
	if first.shard.entries[first.entry.key] == first.entry { // unless another goroutine has evicted it
		delete(first.shard.entries, first.entry.key)
		s.keys.Add(-1)
		s.evictedOver.Add(1)
	}
	return true
}

// victim is a key over its limits that may be evicted.
type victim struct {
	shard   *shard
	entry   *entry
	reopens window.Instant
}

// evictOpen looks at a few keys, and evicts the one with room left that expires first, nil if there is none. It returns how
// many it looked at, and updates first, the key that reopens first of those over their limits.
func (sh *shard) evictOpen(newcomer *entry, now window.Instant, first *victim) (open *entry, looked int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, e := range sh.entries {
		if looked == looksAShard {
			break
		}
		if e == newcomer {
			continue
		}
		looked++
		switch {
		case e.reopens <= now:
			if open == nil || e.expires < open.expires {
				open = e
			}
		case first.entry == nil || e.reopens < first.reopens:
			*first = victim{sh, e, e.reopens}
		}
	}
	if open != nil {
		delete(sh.entries, open.key)
	}
	return open, looked
}

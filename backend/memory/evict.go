package memory

import "github.com/weirproxy/weir/backend/window"

// maxLooks is how many keys an eviction reads at most, looksPerShard how many in each shard. If nine of ten keys are
// over their limits, as after a long flood, six of ten shards show only such keys; then one eviction in 10¹⁵ finds no
// other key.
const maxLooks, looksPerShard = 512, 8

// makeRoom evicts keys until there are at most MaxKeys, but never the newcomer.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne evicts one key, and reports whether it found any except the newcomer. It reads a few random keys of each
// shard, beginning with the newcomer's, until a shard has keys with room left, and evicts the one of these that expires
// first. If no shard has one, it evicts the key that reopens first. With more keys per shard, keys with room left would
// gather in parts of the map.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	var first victim // of the keys over their limits, the one that reopens first
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

// evictOpen reads a few keys, evicts the one with room left that expires first, if any, and returns it and the number
// of keys read. It updates first, the key that reopens first of those over their limits.
func (sh *shard) evictOpen(newcomer *entry, now window.Instant, first *victim) (open *entry, looked int) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, e := range sh.entries {
		if looked == looksPerShard {
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

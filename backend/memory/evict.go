package memory

import "github.com/weirproxy/weir/backend/window"

// An eviction looks at so many keys at most, and at so many of a shard. If nine keys of ten are over their limits, a
// long flood has six shards of ten show none of the others: an eviction misses them once in 10¹⁵ times.
const maxLooks, looksAShard = 512, 8

// makeRoom evicts keys until no more than MaxKeys are held, but not the one that just came.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne evicts one key, and reports whether there is one beside the newcomer. From the newcomer's shard on it looks at
// a few of each, from a random one on as Go's maps begin with, until some have room left, and takes the one that expires
// first. If none has, it takes the first to reopen. More than a few would let those with room left gather: each stretch of
// a map would lose as many keys as it gets, however few it has.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	var first victim // of those over their limits
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
	if first.shard.entries[first.entry.key] == first.entry { // unless another goroutine was faster
		delete(first.shard.entries, first.entry.key)
		s.keys.Add(-1)
		s.evictedOver.Add(1)
	}
	return true
}

// victim is a key over its limits that may have to go.
type victim struct {
	shard   *shard
	entry   *entry
	reopens window.Instant
}

// evictOpen evicts, of a few keys with room left, the one that expires first, and returns it, nil if there is none, and at
// how many it has looked. It notes the first to reopen of the others.
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

package memory

import "github.com/weirproxy/weir/backend/window"

// An eviction looks at so many keys at most, and takes one of so many with room left. If nine keys of ten are over their
// limits, it misses the others once in 10¹¹ times.
const maxLooks, maxOpen = 256, 8

// makeRoom evicts keys until no more than MaxKeys are held, but not the one that just came.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne evicts one key: of some with room left the first to expire, else, of some over their limits, the first to
// reopen. It looks at keys of the newcomer's shard from a random one on, as Go's maps begin with, and if these are too few
// at those of the next. It reports whether there is a key beside the newcomer.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	var first victim // of those over their limits
	looks := maxLooks
	for i := 0; i < shards && looks > 0; i++ {
		sh := &s.shards[(home+i)&(shards-1)]
		if e := sh.evictOpen(newcomer, now, &looks, &first); e != nil {
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

// evictOpen evicts, of the first keys with room left, the one that expires first, and returns it; nil if there is none
// among those that it may look at. It notes the first to reopen of the others.
func (sh *shard) evictOpen(newcomer *entry, now window.Instant, looks *int, first *victim) (open *entry) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	found := 0
	for _, e := range sh.entries {
		if found == maxOpen || *looks == 0 {
			break
		}
		switch {
		case e == newcomer:
			continue
		case e.reopens <= now:
			if found++; open == nil || e.expires < open.expires {
				open = e
			}
		case first.entry == nil || e.reopens < first.reopens:
			*first = victim{sh, e, e.reopens}
		}
		*looks--
	}
	if open != nil {
		delete(sh.entries, open.key)
	}
	return open
}

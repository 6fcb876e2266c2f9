package memory

import (
	"container/heap"

	"github.com/weirproxy/weir/backend/window"
)

// makeRoom throws keys out until no more than MaxKeys are held, but not the one that just came.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne throws one key out: of the keys with room left the first to expire in the newcomer's shard, else in another
// shard; if all keys are over their limits, the one that reopens first. It says false if there is no key but the
// newcomer. Where several reopen at once, the search begins at the newcomer's shard, so that none is preferred.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	for i := range shards {
		if s.shards[(home+i)&(shards-1)].evictOpen(newcomer, now) {
			s.keys.Add(-1)
			s.evictedOpen.Add(1)
			return true
		}
	}
	var first *shard
	var earliest window.Instant
	for i := range shards {
		sh := &s.shards[(home+i)&(shards-1)]
		if at, any := sh.nextReopening(newcomer, now); any && (first == nil || at < earliest) {
			first, earliest = sh, at
		}
	}
	if first == nil {
		return false
	}
	if first.evictSpent(newcomer, now) { // unless another goroutine was faster
		s.keys.Add(-1)
		s.evictedOver.Add(1)
	}
	return true
}

// evictOpen throws out the key with room left that expires first, if there is one.
func (sh *shard) evictOpen(newcomer *entry, now window.Instant) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for len(sh.spent) > 0 && sh.spent[0].due <= now {
		sh.front(&sh.spent, now)
	}
	return sh.evict(&sh.open, newcomer, now)
}

func (sh *shard) evictSpent(newcomer *entry, now window.Instant) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.evict(&sh.spent, newcomer, now)
}

func (sh *shard) evict(q *queue, newcomer *entry, now window.Instant) bool {
	e := sh.frontBut(q, newcomer, now)
	if e != nil {
		sh.remove(e)
	}
	return e != nil
}

// nextReopening returns when the first spent key of the shard reopens; false if there is none.
func (sh *shard) nextReopening(newcomer *entry, now window.Instant) (window.Instant, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.frontBut(&sh.spent, newcomer, now)
	if e == nil {
		return 0, false
	}
	return e.reopens, true
}

// frontBut returns the front of a queue as it would be without the newcomer.
func (sh *shard) frontBut(q *queue, newcomer *entry, now window.Instant) *entry {
	e := sh.front(q, now)
	if e == nil || e != newcomer {
		return e
	}
	heap.Remove(q, int(newcomer.index))
	e = sh.front(q, now)
	heap.Push(q, newcomer)
	return e
}

package memory

import (
	"container/heap"

	"github.com/weirproxy/weir/backend/window"
)

// makeRoom evicts keys until no more than MaxKeys are held, but not the one that just came.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for s.keys.Load() > int64(s.config.MaxKeys) && s.evictOne(home, newcomer, now) {
	}
}

// evictOne evicts one key: of the keys with room left the first to expire in the newcomer's shard, else in another
// shard; if all keys are over their limits, the one that reopens first. It reports whether there is a key beside the
// newcomer. Where several reopen at once, the search begins at the newcomer's shard, so that none is preferred.
func (s *Store) evictOne(home int, newcomer *entry, now window.Instant) bool {
	for i := range shards {
		if sh := &s.shards[(home+i)&(shards-1)]; sh.evict(&sh.open, newcomer, now) {
			s.keys.Add(-1)
			s.evictedOpen.Add(1)
			return true
		}
	}
	var first *shard
	var earliest window.Instant
	for i := range shards {
		sh := &s.shards[(home+i)&(shards-1)]
		if at := sh.nextReopening(newcomer, now); at != 0 && (first == nil || at < earliest) {
			first, earliest = sh, at
		}
	}
	if first == nil {
		return false
	}
	if first.evict(&first.spent, newcomer, now) { // unless another goroutine was faster
		s.keys.Add(-1)
		s.evictedOver.Add(1)
	}
	return true
}

// evict evicts the first key of a queue, and reports whether there was one beside the newcomer. Keys that have
// reopened by now are in the open queue first.
func (sh *shard) evict(q *queue, newcomer *entry, now window.Instant) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for len(sh.spent) > 0 && sh.spent[0].due <= now {
		sh.front(&sh.spent, now)
	}
	e := sh.frontWithout(q, newcomer, now)
	if e != nil {
		sh.remove(e)
	}
	return e != nil
}

// nextReopening returns when the first spent key of the shard reopens; 0 if there is none.
func (sh *shard) nextReopening(newcomer *entry, now window.Instant) window.Instant {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.frontWithout(&sh.spent, newcomer, now); e != nil {
		return e.reopens
	}
	return 0
}

// frontWithout returns the front of a queue if the newcomer were not in it.
func (sh *shard) frontWithout(q *queue, newcomer *entry, now window.Instant) *entry {
	e := sh.front(q, now)
	if e != newcomer {
		return e
	}
	heap.Remove(q, int(newcomer.index))
	e = sh.front(q, now)
	heap.Push(q, newcomer)
	return e
}

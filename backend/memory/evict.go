package memory

import (
	"container/heap"

	"github.com/weirproxy/weir/backend/window"
)

// makeRoom throws one key out, not the one that just came: of the keys with room left the first to expire in the
// newcomer's shard, else in another shard; if all keys are over their limits, the one that reopens first.
func (s *Store) makeRoom(home int, newcomer *entry, now window.Instant) {
	for i := range shards {
		if s.shards[(home+i)&(shards-1)].evictOpen(newcomer, now) {
			s.keys.Add(-1)
			s.evictedOpen.Add(1)
			return
		}
	}
	first, earliest := -1, window.Instant(0)
	for i := range s.shards {
		if at, any := s.shards[i].nextReopening(newcomer, now); any && (first < 0 || at < earliest) {
			first, earliest = i, at
		}
	}
	if first >= 0 && s.shards[first].evictSpent(newcomer, now) {
		s.keys.Add(-1)
		s.evictedOver.Add(1)
	}
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

// nextReopening is when the first spent key of the shard reopens; false if there is none.
func (sh *shard) nextReopening(newcomer *entry, now window.Instant) (window.Instant, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.frontBut(&sh.spent, newcomer, now)
	if e == nil {
		return 0, false
	}
	return e.reopens, true
}

// frontBut is the front of a queue as it would be without the newcomer.
func (sh *shard) frontBut(q *queue, newcomer *entry, now window.Instant) *entry {
	e := sh.front(q, now)
	if e == nil || e != newcomer {
		return e
	}
	heap.Remove(q, int(newcomer.place))
	e = sh.front(q, now)
	heap.Push(q, newcomer)
	return e
}

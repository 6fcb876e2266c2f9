package memory

import (
	"context"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var _ backend.Inspector = (*Store)(nil)

// Inspect returns the counts of a key. The store has only the finest buckets; coarser ones are sums of them.
func (s *Store) Inspect(_ context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	var states window.States
	if e := sh.entries[string(key)]; e != nil {
		states = e.states
	}
	return states.Counts(limits, now), nil
}

// Reset deletes a key.
func (s *Store) Reset(_ context.Context, key []byte) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.entries[string(key)] != nil {
		delete(sh.entries, string(key))
		s.keys.Add(-1)
	}
	return nil
}

package memory

import (
	"context"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

var _ backend.Inspector = (*Store)(nil)

// Inspect tells what a key holds. Only the finest buckets are kept; the coarser ones are sums of them.
func (s *Store) Inspect(_ context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	if s.closed.Load() {
		return nil, backend.ErrClosed
	}
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	counts := make([]backend.LimitCount, 0, len(limits))
	for i := range limits {
		levels := make([][]backend.Bucket, len(limits[i].Levels()))
		if e := sh.entries[string(key)]; e != nil {
			if state := e.state(&limits[i]); state != nil {
				fill(levels, limits[i].Levels(), state, now)
			}
		}
		counts = append(counts, backend.NewLimitCount(limits[i], levels, time.UnixMicro(int64(now))))
	}
	return counts, nil
}

// fill adds a state's buckets up on each level; widths are those of the levels.
func fill(levels [][]backend.Bucket, widths []time.Duration, state *window.State, now window.Instant) {
	for begin, hits := range state.Buckets(now) {
		for i, width := range widths {
			at := int64(begin)
			at -= at % width.Microseconds()
			b := backend.Bucket{Begin: time.UnixMicro(at).UTC(), Width: width, Hits: hits}
			if last := len(levels[i]) - 1; last >= 0 && levels[i][last].Begin.Equal(b.Begin) {
				levels[i][last].Hits += hits
				continue
			}
			levels[i] = append(levels[i], b)
		}
	}
}

// Reset forgets a key.
func (s *Store) Reset(_ context.Context, key []byte) error {
	if s.closed.Load() {
		return backend.ErrClosed
	}
	sh := &s.shards[s.shardOf(key)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[string(key)]; e != nil {
		sh.remove(e)
		s.keys.Add(-1)
	}
	return nil
}

package memory

import (
	"cmp"
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
		var state window.State
		if e := sh.entries[string(key)]; e != nil {
			state = e.state(&limits[i])
		}
		counts = append(counts, count(limits[i], cmp.Or(state, window.NewState(&limits[i])), now))
	}
	return counts, nil
}

// count tells what a state holds for a limit. Of a log it lists the newest instants.
func count(l descriptors.Limit, state window.State, now window.Instant) backend.LimitCount {
	cells, ok := state.(*window.Cells)
	if !ok {
		hits, reset := state.Peek(&l, now)
		return backend.LimitCount{Limit: l, Hits: hits, ResetIn: reset}
	}
	unlisted, widths := 0, l.Levels()
	if l.Algorithm == descriptors.SlidingLog {
		unlisted = cells.Len() - backend.MaxInstants
	}
	levels := make([][]backend.Bucket, len(widths))
	var oldest time.Time
	var earlier uint64
	for begin, hits := range cells.Buckets(now) {
		if oldest.IsZero() {
			oldest = time.UnixMicro(int64(begin)).UTC()
		}
		if unlisted--; unlisted >= 0 {
			earlier += hits
			continue
		}
		for i, width := range widths {
			at := int64(begin) - int64(begin)%width.Microseconds()
			levels[i] = add(levels[i], backend.Bucket{Begin: time.UnixMicro(at).UTC(), Width: width, Hits: hits})
		}
	}
	return backend.NewLimitCount(l, levels, earlier, oldest, time.UnixMicro(int64(now)))
}

// add appends a bucket, or counts its hits in the last one if that begins at the same moment.
func add(buckets []backend.Bucket, b backend.Bucket) []backend.Bucket {
	if last := len(buckets) - 1; last >= 0 && buckets[last].Begin.Equal(b.Begin) {
		buckets[last].Hits += b.Hits
		return buckets
	}
	return append(buckets, b)
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

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

// count tells what a state holds for a limit.
func count(l descriptors.Limit, state window.State, now window.Instant) backend.LimitCount {
	if tokens, ok := state.(*window.Tokens); ok {
		hits, reset := tokens.Peek(&l, now)
		return backend.LimitCount{Limit: l, Hits: hits, ResetIn: reset}
	}
	cells := state.(*window.Cells)
	if l.Algorithm == descriptors.SlidingLog {
		return countLog(l, cells, now)
	}
	widths := l.Levels()
	levels := make([][]backend.Bucket, len(widths))
	for begin, hits := range cells.Buckets(now) {
		for i, width := range widths {
			at := int64(begin) - int64(begin)%width.Microseconds()
			levels[i] = add(levels[i], backend.Bucket{Begin: time.UnixMicro(at).UTC(), Width: width, Hits: hits})
		}
	}
	return backend.NewLimitCount(l, levels, time.UnixMicro(int64(now)))
}

// countLog lists the newest instants of a log.
func countLog(l descriptors.Limit, cells *window.Cells, now window.Instant) backend.LimitCount {
	var newest []backend.Bucket
	var oldest time.Time
	var earlier uint64
	unlisted := cells.Len() - backend.MaxInstants
	for begin, hits := range cells.Buckets(now) {
		at := time.UnixMicro(int64(begin)).UTC()
		if oldest.IsZero() {
			oldest = at
		}
		if unlisted--; unlisted >= 0 {
			earlier += hits
		} else {
			newest = add(newest, backend.Bucket{Begin: at, Width: time.Microsecond, Hits: hits})
		}
	}
	return backend.NewLogCount(l, newest, earlier, oldest, time.UnixMicro(int64(now)))
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

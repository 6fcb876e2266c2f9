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
	var cells *window.Cells
	switch state := state.(type) {
	case *window.Tokens:
		hits, reset := state.Peek(&l, now)
		return backend.LimitCount{Limit: l, Hits: hits, ResetIn: reset}
	case *window.Cells:
		cells = state
	}
	if l.Algorithm == descriptors.SlidingLog {
		return countLog(l, cells, now)
	}
	levels := make([][]backend.Bucket, len(l.Levels()))
	fill(levels, l.Levels(), cells, now)
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
		last := len(newest) - 1
		switch unlisted--; {
		case unlisted >= 0:
			earlier += hits
		case last >= 0 && newest[last].Begin.Equal(at):
			newest[last].Hits += hits
		default:
			newest = append(newest, backend.Bucket{Begin: at, Width: time.Microsecond, Hits: hits})
		}
	}
	return backend.NewLogCount(l, newest, earlier, oldest, time.UnixMicro(int64(now)))
}

// fill adds the buckets of cells up on each level; widths are those of the levels.
func fill(levels [][]backend.Bucket, widths []time.Duration, cells *window.Cells, now window.Instant) {
	for begin, hits := range cells.Buckets(now) {
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

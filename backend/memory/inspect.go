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
		state := window.NewState(&limits[i])
		if e := sh.entries[string(key)]; e != nil {
			state = *cmp.Or(e.state(&limits[i]), &state)
		}
		counts = append(counts, count(limits[i], &state, now))
	}
	return counts, nil
}

// count tells what a state holds for a limit.
func count(l descriptors.Limit, state *window.State, now window.Instant) backend.LimitCount {
	if l.Algorithm == descriptors.SlidingLog {
		return countLog(l, state, now)
	}
	levels := make([][]backend.Bucket, len(l.Levels()))
	fill(levels, l.Levels(), state, now)
	return backend.NewLimitCount(l, levels, time.UnixMicro(int64(now)))
}

// countLog lists the newest instants of a log.
func countLog(l descriptors.Limit, state *window.State, now window.Instant) backend.LimitCount {
	var newest []backend.Bucket
	var oldest time.Time
	var earlier uint64
	unlisted := state.Cells() - backend.MaxInstants
	for begin, hits := range state.Buckets(now) {
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

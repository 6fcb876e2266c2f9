package memory

import (
	"context"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

var _ backend.Lister = (*Store)(nil)

const (
	// listAtOnce is how many keys List looks at in one hold of a shard's lock: some 10 µs, which a check waits at most.
	listAtOnce = 64
	// stretch is how long it looks before it rests for as long, so that it takes half of the time of one processor: longer
	// than that a check does not wait where there is no other. Once its time is over it only lets others go first.
	stretch = 200 * time.Microsecond
)

// List looks at all keys, however long that takes, shard by shard, and tells of each exactly what a check would find. It
// holds the lock of one shard at a time, for a few microseconds.
func (s *Store) List(ctx context.Context, ask backend.Listing) (backend.Listed, error) {
	if s.closed.Load() {
		return backend.Listed{}, backend.ErrClosed
	}
	l := &listing{store: s, ask: ask, ctx: ctx, began: time.Now(), until: time.Now().Add(ask.For)}
	l.listed.Held = uint64(max(0, s.keys.Load()))
	for i := range s.shards {
		if !l.shard(&s.shards[i]) {
			return l.listed, ctx.Err()
		}
	}
	l.listed.Complete = true
	return l.listed, nil
}

// listing is a listing under way.
type listing struct {
	store  *Store
	ask    backend.Listing
	ctx    context.Context
	began  time.Time // when it last rested
	until  time.Time // it rests
	listed backend.Listed
	some   []*entry
	keys   []byte                // of some, one behind the other
	ends   []int                 // where each ends
	limits [][]descriptors.Limit // of each of some
	holds  [][]backend.Glance    // likewise
}

// shard looks at the keys of a shard, and reports false if ctx has ended. The lock is not held between
// some keys and the next: a map may change while it is walked, as long as nobody changes it during a step.
func (l *listing) shard(sh *shard) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l.some = l.some[:0]
	for _, e := range sh.entries {
		if l.some = append(l.some, e); len(l.some) < listAtOnce {
			continue
		}
		if !l.unlocked(sh) {
			return false
		}
		l.some = l.some[:0]
	}
	return l.unlocked(sh)
}

// unlocked looks at some keys while others may use the shard, whose lock the caller holds. It reports false if ctx has
// ended.
func (l *listing) unlocked(sh *shard) bool {
	sh.mu.Unlock()
	defer sh.mu.Lock()
	if l.ctx.Err() == nil {
		l.look(sh)
		l.listed.Seen += uint64(len(l.some))
		l.rest()
	}
	return l.ctx.Err() == nil
}

// look shows some keys. It copies all of them first: each waits for memory, which is fetched for several at a time where
// nothing else happens in between.
func (l *listing) look(sh *shard) {
	l.keys, l.ends = l.keys[:0], l.ends[:0]
	for _, e := range l.some {
		l.keys = append(l.keys, e.key...)
		l.ends = append(l.ends, len(l.keys))
	}
	l.limits = l.limits[:0]
	for i := range l.some {
		l.limits = append(l.limits, l.ask.Limits(l.key(i)))
	}
	l.read(sh)
	for i := range l.some {
		if len(l.limits[i]) > 0 {
			l.ask.Visit(l.key(i), l.limits[i], l.holds[i])
		}
	}
}

// key returns the key of the i-th of some.
func (l *listing) key(i int) []byte {
	begin := 0
	if i > 0 {
		begin = l.ends[i-1]
	}
	return l.keys[begin:l.ends[i]:l.ends[i]]
}

// read reads what some keys hold now. One that is gone holds nothing.
func (l *listing) read(sh *shard) {
	for len(l.holds) < len(l.some) {
		l.holds = append(l.holds, nil)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := l.store.now()
	for i, e := range l.some {
		l.holds[i] = l.holds[i][:0]
		for j := range l.limits[i] {
			glance := backend.Glance{Exact: true}
			if state := e.state(&l.limits[i][j]); state != nil && sh.entries[e.key] == e {
				glance.Hits, glance.ResetIn = state.Peek(&l.limits[i][j], now)
			}
			l.holds[i] = append(l.holds[i], glance)
		}
	}
}

// rest lets others have the processor, after each stretch.
func (l *listing) rest() {
	took := time.Since(l.began)
	if took < stretch {
		return
	}
	if time.Now().After(l.until) {
		took = time.Microsecond
	}
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.ctx.Done():
	}
	l.began = time.Now()
}

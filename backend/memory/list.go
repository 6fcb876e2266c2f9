package memory

import (
	"context"
	"time"

	"github.com/weirproxy/weir/backend"
)

var _ backend.Lister = (*Store)(nil)

// stretch is how long List looks before it rests for as long, so that it takes half of the time of one processor:
// longer than that a check does not wait where there is no other. Once its time is over it only lets others go first.
const stretch = 200 * time.Microsecond

// List looks at all keys, however long that takes, shard by shard, and tells of each exactly what a check would find.
// It holds the lock of one shard at a time, for one key.
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
	key    []byte
	holds  []backend.Glance
}

// shard looks at the keys of a shard, and reports false if ctx has ended. The lock is not held between one key and the
// next: a map may change while it is walked, as long as nobody changes it during a step.
func (l *listing) shard(sh *shard) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, e := range sh.entries {
		sh.mu.Unlock()
		l.show(sh, e)
		l.rest()
		sh.mu.Lock()
		if l.ctx.Err() != nil {
			return false
		}
	}
	return l.ctx.Err() == nil
}

// show shows what a key holds now. One that is gone holds nothing.
func (l *listing) show(sh *shard, e *entry) {
	l.listed.Seen++
	l.key = append(l.key[:0], e.key...)
	limits := l.ask.Limits(l.key)
	if len(limits) == 0 {
		return
	}
	l.holds = l.holds[:0]
	sh.mu.Lock()
	now, held := l.store.now(), sh.entries[e.key] == e
	for i := range limits {
		glance := backend.Glance{Exact: true}
		if state := e.states.Of(&limits[i]); state != nil && held {
			glance.Hits, glance.ResetIn = state.Peek(&limits[i], now)
		}
		l.holds = append(l.holds, glance)
	}
	sh.mu.Unlock()
	l.ask.Visit(l.key, limits, l.holds)
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

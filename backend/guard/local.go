package guard

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// local counts in this process what the store gives no answer to, each limit divided by the replicas that do the same.
// What it has counted stays through a short return of the store, for as long as it counts: a store that comes and goes
// buys nobody a fresh count each time.
type local struct {
	replicas func() int
	store    backend.Counter // nil if no check has that policy
	used     atomic.Int64                    // Unix nanoseconds; 0: never
}

// decide decides the checks of a part.
func (l *local) decide(ctx context.Context, p *backend.Part) {
	replicas := uint64(max(1, l.replicas()))
	for i := range p.Checks {
		p.Checks[i].Limits = shares(p.Checks[i].Limits, replicas)
	}
	l.used.Store(time.Now().UnixNano())
	err := l.store.Decide(ctx, p.Checks, p.Out)
	for i := range p.Out {
		if p.Out[i].Source = backend.FromLocal; err != nil {
			p.Out[i] = backend.Decision{Err: fmt.Errorf("counting in this process while the store is away: %w", err)}
		}
	}
}

// shares returns limits of which each of some replicas may admit its share: rounded down, but at least one hit, where
// the limit admits any.
func shares(limits []descriptors.Limit, replicas uint64) []descriptors.Limit {
	all := make([]descriptors.Limit, len(limits))
	for i, l := range limits {
		l.Requests, l.Burst = share(l.Requests, replicas), share(l.Burst, replicas)
		all[i] = l
	}
	return all
}

func share(n, replicas uint64) uint64 {
	if n == 0 {
		return 0
	}
	return max(1, n/replicas)
}

func (l *local) close() error {
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}

// last returns when a check was last decided here, the zero time for never.
func (l *local) last() time.Time {
	if at := l.used.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

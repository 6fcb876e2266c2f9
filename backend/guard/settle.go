package guard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// settlePause is the time between two looks for leases that have ended: so they are settled within backend.SettleTime.
const settlePause = backend.SettleTime / 2

// settlement returns the check that settles the lease of a key.
func (k *lease) settlement(key []byte) backend.Check {
	return backend.Check{Key: key, Limits: k.limits, Op: backend.Refund, OnFailure: descriptors.PolicyError,
		Lease: &backend.Lease{Granted: k.granted, Unused: k.unused, ChargedAt: k.chargedAt, State: k.state}}
}

// settleEnded begins to settle the leases that have ended, or all, as many at a time as a call may have: what waits for a
// frozen server keeps no others. It removes the leases of which nothing has to be known.
func (l *leases) settleEnded(ctx context.Context, store backend.Counter, now time.Time, all bool, running *sync.WaitGroup) {
	var checks []backend.Check
	for i := range l.shards {
		if sh := &l.shards[i]; sh.size.Load() > 0 {
			checks = sh.takeEnded(checks, now, all)
		}
	}
	for batch := range slices.Chunk(checks, backend.MaxChecks) {
		running.Go(func() { l.settle(ctx, store, batch, now) })
	}
}

// settle asks the store to settle leases.
func (l *leases) settle(ctx context.Context, store backend.Counter, checks []backend.Check, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out := make([]backend.Decision, len(checks))
	err := store.Decide(ctx, checks, out)
	for i := range checks {
		l.settled(&checks[i], cmp.Or(err, out[i].Err), now)
	}
}

// takeEnded appends the checks that settle leases which have ended, or all, and removes those that hold nothing.
func (sh *leaseShard) takeEnded(checks []backend.Check, now time.Time, all bool) []backend.Check {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, first := range sh.keys {
		place := &first
		for k := first; k != nil; k = k.next {
			if k.granted > 0 && (all || !now.Before(k.ends)) {
				checks = append(checks, k.settlement([]byte(key)))
				k.granted, k.unused = 0, 0
			}
			if k.idle(now) {
				*place = k.next
				sh.size.Add(-1)
			} else {
				place = &k.next
			}
		}
		if sh.keys[key] = first; first == nil {
			delete(sh.keys, key)
		}
	}
	return checks
}

// idle reports whether nothing has to be known of the lease any more.
func (k *lease) idle(now time.Time) bool {
	return k.granted == 0 && k.pending == nil && now.After(k.ends.Add(keepTime)) && now.After(k.askAfter) &&
		k.abandoned.sum(longest(k.limits), now) == 0
}

// settled takes in what the store has answered to a settlement. One that it was not asked is asked again, unless the key
// has leased since.
func (l *leases) settled(c *backend.Check, err error, now time.Time) {
	q, sh := c.Lease, l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.find(c.Key, c.Limits)
	if unasked(err) && k != nil && k.granted == 0 && k.state == q.State &&
		k.chargedAt.Equal(q.ChargedAt) && !now.After(k.ends.Add(keepTime)) {
		k.granted, k.unused = q.Granted, q.Unused
		return
	}
	l.used.Add(q.Granted - q.Unused)
	l.returned.Add(q.Returned)
	l.lapsed.Add(q.Unused - q.Returned)
	if k != nil && k.state == q.State { // else their state is gone, and they with it
		k.abandoned.add(q.Unused-q.Returned, longest(k.limits), now)
	}
}

// abandoned counts hits that the store may have charged for leases, that nobody will use, and that still count: never too
// few. It keeps them by spans, each as long as a hit counts at most.
type abandoned struct {
	recent, older uint64    // hits of the span that began at since, and of the one before
	since         time.Time // on the monotonic clock
}

// sum returns at least as many hits as still count, if one counts for span at most.
func (a *abandoned) sum(span time.Duration, now time.Time) uint64 {
	switch passed := now.Sub(a.since); {
	case passed >= 2*span:
		*a = abandoned{since: now}
	case passed >= span:
		*a = abandoned{older: a.recent, since: now}
	}
	return a.recent + a.older
}

// add adds hits.
func (a *abandoned) add(hits uint64, span time.Duration, now time.Time) {
	a.sum(span, now) // begins a span if the last one is over
	a.recent += hits
}

// longest returns how long a hit counts under some limits at most.
func longest(limits []descriptors.Limit) (long time.Duration) {
	for i := range limits {
		long = max(long, limits[i].Window+limits[i].Precision)
	}
	return long
}

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

// settleInterval is how often ended leases are settled, so that each is settled within backend.SettleTime.
const settleInterval = backend.SettleTime / 2

// settlement returns the check that settles the lease of a key.
func (l *lease) settlement(key []byte) backend.Check {
	return backend.Check{Key: key, Limits: l.limits, Op: backend.Refund, OnFailure: descriptors.PolicyError,
		Lease: &backend.Lease{Granted: l.granted, Unused: l.unused, ChargedAt: l.chargedAt, State: l.state}}
}

// settleEnded starts to settle the ended leases, or all of them, and removes idle ones. Each call of the store has its own
// goroutine, so that a frozen server does not delay the other calls.
func (t *leaseTable) settleEnded(ctx context.Context, store backend.Counter, now time.Time, all bool, running *sync.WaitGroup) {
	var checks []backend.Check
	for i := range t.shards {
		if sh := &t.shards[i]; sh.size.Load() > 0 {
			checks = sh.takeEnded(checks, now, all)
		}
	}
	for batch := range slices.Chunk(checks, backend.MaxChecks) {
		running.Go(func() { t.settle(ctx, store, batch, now) })
	}
}

// settle asks the store to settle leases.
func (t *leaseTable) settle(ctx context.Context, store backend.Counter, checks []backend.Check, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	out := make([]backend.Decision, len(checks))
	err := store.Decide(ctx, checks, out)
	for i := range checks {
		t.finishSettlement(&checks[i], cmp.Or(err, out[i].Err), now)
	}
}

// takeEnded appends the checks that settle the ended leases, or all of them, and removes idle ones.
func (sh *leaseShard) takeEnded(checks []backend.Check, now time.Time, all bool) []backend.Check {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for key, first := range sh.keys {
		link := &first
		for l := first; l != nil; l = l.next {
			if l.granted > 0 && (all || !now.Before(l.ends)) {
				checks = append(checks, l.settlement([]byte(key)))
				l.granted, l.unused = 0, 0
			}
			if l.idle(now) {
				*link = l.next
				sh.size.Add(-1)
			} else {
				link = &l.next
			}
		}
		if sh.keys[key] = first; first == nil {
			delete(sh.keys, key)
		}
	}
	return checks
}

// idle reports whether the lease has no state that a later one needs.
func (l *lease) idle(now time.Time) bool {
	return l.granted == 0 && l.pending == nil && now.After(l.ends.Add(keepAfterEnd)) && now.After(l.askAfter) &&
		l.abandoned.sum(maxHitLife(l.limits), now) == 0
}

// finishSettlement handles the store's answer to a settlement. A settlement that was not sent is sent again later,
// unless the key has leased since.
func (t *leaseTable) finishSettlement(c *backend.Check, err error, now time.Time) {
	q, sh := c.Lease, t.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(c.Key, c.Limits)
	if neverSent(err) && l != nil && l.granted == 0 && l.state == q.State &&
		l.chargedAt.Equal(q.ChargedAt) && !now.After(l.ends.Add(keepAfterEnd)) {
		l.granted, l.unused = q.Granted, q.Unused
		return
	}
	t.used.Add(q.Granted - q.Unused)
	t.returned.Add(q.Returned)
	t.lapsed.Add(q.Unused - q.Returned)
	if l != nil && l.state == q.State { // else their state was removed, and the hits with it
		l.abandoned.add(q.Unused-q.Returned, maxHitLife(l.limits), now)
	}
}

// abandoned is an upper bound of leased hits that the store still counts and that nobody will use. It sums them in two
// consecutive spans, each as long as the longest time that a hit counts.
type abandoned struct {
	recent, older uint64    // hits of the span that started at since, and of the one before
	since         time.Time // on the monotonic clock
}

// sum returns the upper bound, if a hit counts for at most span. It drops spans that are over.
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
	a.sum(span, now) // drops spans that are over
	a.recent += hits
}

// maxHitLife returns the longest time that a hit counts under these limits.
func maxHitLife(limits []descriptors.Limit) (long time.Duration) {
	for i := range limits {
		long = max(long, limits[i].Window+limits[i].Precision)
	}
	return long
}

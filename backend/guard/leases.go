package guard

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// minLeaseRate is how many hits a second a key must have in this process to lease: a lease saves about that many
	// checks, and costs two.
	minLeaseRate = 10
	// minLeaseSpan is the least width that a limit's finest bucket must have for leases. Unused hits of a narrower bucket
	// would mostly come back after its end, too late to be taken off.
	minLeaseSpan = time.Second
	// leaseShare divides the remaining hits of a limit: all replicas together lease at most one leaseShare-th of them.
	leaseShare = 10
	// leaseDrift divides the life of a lease: it ends a thousandth early, as NTP slews the clocks of servers by up to
	// half as much.
	leaseDrift = 1000
	// noGrantPause is how long a key does not ask for a lease after the store has granted none.
	noGrantPause = time.Second
	// sharedPause is the same after a check under other limits had to settle the key's lease because both share a state.
	sharedPause = 10 * time.Second
	// maxLeases is the most leases in a shard; leaseShards is the number of shards, a power of two.
	maxLeases, leaseShards = 128, 64
	// bucketEndMargin is how long after the estimated end of a bucket a key does not ask for a lease. The estimate is too
	// early by the latency of the answer, and a lease granted before the real end would end at once.
	bucketEndMargin = 5 * time.Millisecond
	// keepAfterEnd is how long an ended lease stays in the table: the ends of later buckets are estimated from its bucket.
	keepAfterEnd = 2 * time.Second
)

// leaseTable holds the hits that the store has leased to this process; see backend.Lease. All its methods may be called
// by any number of goroutines.
type leaseTable struct {
	enabled  bool
	replicas func() int
	seed     maphash.Seed
	shards   [leaseShards]leaseShard

	grants                          atomic.Uint64 // number of leases
	granted, used, returned, lapsed atomic.Uint64 // their hits; the last three are counted at settlement
}

type leaseShard struct {
	mu   sync.Mutex
	keys map[string]*lease // by key, a linked list of leases
	size atomic.Int32      // number of leases
}

// lease is the last lease of a key under one list of limits, and the next one if it is pending. Its times are on the
// monotonic clock, except chargedAt.
type lease struct {
	next            *lease // of the same key, under other limits
	limits          []descriptors.Limit
	granted, unused uint64    // hits; granted is 0 if there is nothing to settle
	state           uint64    // backend.Lease.State
	chargedAt       time.Time // by the store's clock
	bucketEnds      time.Time // of the bucket that was charged; zero before the first lease
	ends            time.Time

	strictest         int
	before, remaining uint64    // of the strictest limit, without the hits of other replicas since the lease began
	resetAt           time.Time // of the strictest limit

	pending   *pendingLease // nil for none
	askAfter  time.Time     // the key does not ask for a lease before
	abandoned abandoned
}

// pendingLease is a lease that a check asks the store for. Done must be called with the decision, or the key never
// leases again.
type pendingLease struct {
	backend.Lease
	table *leaseTable
	check *backend.Check
	sent  time.Time
}

func (t *leaseTable) init(enabled bool, replicas func() int) {
	t.enabled, t.replicas, t.seed = enabled, replicas, maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].keys = make(map[string]*lease)
	}
}

func (t *leaseTable) shard(key []byte) *leaseShard {
	return &t.shards[maphash.Bytes(t.seed, key)&(leaseShards-1)]
}

// find returns the lease of a key under these limits, nil if there is none.
func (sh *leaseShard) find(key []byte, limits []descriptors.Limit) *lease {
	l := sh.keys[string(key)]
	for l != nil && !slices.Equal(l.limits, limits) {
		l = l.next
	}
	return l
}

// decide decides check i of a call from a lease, if it can. If not, it makes the call settle those leases of the key
// that count in the same states before the check, and returns the lease that the check must ask for, if any.
//
// A refund of a key with a lease returns its hits to the lease; other replicas may use them once it is settled. An
// operator's refund does not lease, so it goes to the store at once.
func (t *leaseTable) decide(c *call, i int) (decided bool, asks *pendingLease) {
	check, now := &c.checks[i], c.start
	wanted := check.Leases && check.Rate >= minLeaseRate && len(check.Key) <= maxKey && check.MayLease() &&
		backend.LeaseSpan(check.Limits) >= minLeaseSpan && c.sharesNoState(i)
	sh := t.shard(check.Key)
	if check.Op == backend.Look || !wanted && sh.size.Load() == 0 {
		return false, nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(check.Key, check.Limits)
	if l != nil && check.Leases && l.decide(check, now, &c.out[i]) {
		return true, nil
	}
	for other := sh.keys[string(check.Key)]; other != nil; other = other.next {
		if other.granted > 0 && sharesState(other.limits, check.Limits) && c.addSettlement(i, other.settlement(check.Key)) {
			if other.granted, other.unused = 0, 0; other != l {
				other.askAfter = now.Add(sharedPause)
			}
		}
	}
	if !wanted {
		return false, nil
	}
	return false, t.requestLease(sh, l, check, now)
}

// sharesNoState reports whether no other check of the call counts in check i's states: a lease could deny such a check.
func (c *call) sharesNoState(i int) bool {
	one := &c.checks[i]
	for j := range c.checks {
		if other := &c.checks[j]; j != i && bytes.Equal(other.Key, one.Key) && sharesState(other.Limits, one.Limits) {
			return false
		}
	}
	return true
}

// sharesState reports whether a limit of a counts in the same state as a limit of b.
func sharesState(a, b []descriptors.Limit) bool {
	return slices.ContainsFunc(a, func(one descriptors.Limit) bool {
		return slices.ContainsFunc(b, func(other descriptors.Limit) bool { return one.SameState(&other) })
	})
}

// requestLease returns the lease that a key must ask for, nil for none. l is nil if the shard has no lease of the key.
func (t *leaseTable) requestLease(sh *leaseShard, l *lease, c *backend.Check, now time.Time) *pendingLease {
	share := leaseShare * uint64(max(1, t.replicas()))
	hits := l.hitsNeeded(c, share, now)
	switch {
	case hits < backend.MinLeaseHits:
		return nil
	case l == nil && sh.size.Load() >= maxLeases:
		return nil
	case l == nil:
		l = &lease{limits: slices.Clone(c.Limits), next: sh.keys[string(c.Key)]} // the request owns the limits of an override
		sh.keys[string(c.Key)] = l
		sh.size.Add(1)
	case l.pending != nil || l.granted > 0 || !now.After(l.askAfter):
		return nil
	}
	state := 1 + rand.Uint64N(1<<53-1) // a script's numbers are exact below 2^53
	l.pending = &pendingLease{backend.Lease{Want: hits, Share: share, Abandoned: l.abandoned.sum(maxHitLife(l.limits), now),
		State: state}, t, c, now}
	return l.pending
}

// hitsNeeded returns how many hits a key needs until the end of a lease that is granted now, at most as many as the
// limits allow. l may be nil.
func (l *lease) hitsNeeded(c *backend.Check, share uint64, now time.Time) uint64 {
	span := backend.LeaseSpan(c.Limits)
	rest := span
	if l != nil && !l.bucketEnds.IsZero() {
		if rest = l.bucketEnds.Sub(now) % span; rest <= 0 {
			rest += span
		}
		if rest > span-min(span/20, bucketEndMargin) {
			return 0
		}
	}
	n := uint64(math.Ceil(float64(c.Rate) * min(rest, backend.MaxLeaseTime).Seconds()))
	for i := range c.Limits {
		n = min(n, c.Limits[i].Requests/share)
	}
	return n
}

// usable reports whether the lease's hits may be used now.
func (l *lease) usable(now time.Time) bool { return l.granted > 0 && now.Before(l.ends) }

// decide admits a check from the unused hits of a lease, or returns the hits of a refund to it. It returns false if it
// could not.
func (l *lease) decide(c *backend.Check, now time.Time, out *backend.Decision) bool {
	if !l.usable(now) {
		return false
	}
	before := l.before
	switch {
	case c.Op == backend.Refund && c.Hits <= l.granted-l.unused:
		l.unused, l.before, l.remaining = l.unused+c.Hits, l.before-c.Hits, l.remaining+c.Hits
	case c.MayLease() && c.Hits <= l.unused:
		l.unused, l.before, l.remaining = l.unused-c.Hits, l.before+c.Hits, l.remaining-c.Hits
	default:
		return false
	}
	*out = backend.Decision{Allowed: true, Source: backend.FromLease, Strictest: l.strictest, Before: before,
		Remaining: l.remaining, ResetIn: max(0, l.resetAt.Sub(now))}
	return true
}

// Done starts the lease if the store granted one. d is the store's decision on the check.
func (p *pendingLease) Done(d *backend.Decision) {
	t, c := p.table, p.check
	sh := t.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.find(c.Key, c.Limits)
	t.granted.Add(p.Hits)
	if l == nil || l.pending != p { // the key was reset in the meantime
		t.lapsed.Add(p.Hits)
		return
	}
	l.pending = nil
	switch {
	case p.Hits > 0:
		t.grants.Add(1)
		l.abandoned.add(l.unused, maxHitLife(l.limits), p.sent)
		t.lapse(l) // the old lease, if it could not be settled
		lasts := p.TimeLeft(l.limits)
		l.granted, l.unused, l.state, l.chargedAt = p.Hits, p.Hits, p.State, p.Now
		l.bucketEnds, l.ends = p.sent.Add(lasts), p.sent.Add(min(lasts-lasts/leaseDrift, backend.MaxLeaseTime))
		l.strictest, l.before, l.remaining, l.resetAt = d.Strictest, d.Before+c.Hits, d.Remaining, p.sent.Add(d.ResetIn)
	case !neverSent(d.Err): // a check that asks costs the store twice as much, and the limit is near or the store slow
		l.askAfter = p.sent.Add(noGrantPause)
		if d.Err != nil { // the store may have granted hits that nobody will use
			l.abandoned.add(p.Want, maxHitLife(l.limits), p.sent)
		}
	}
}

// neverSent reports whether an error proves that the check was not sent to the store.
func neverSent(err error) bool {
	reason := backend.ReasonOf(err)
	return err != nil && (reason == backend.Down || reason == backend.Busy)
}

// addUnused adds the unused hits of the key's lease to the answer to a look: this process may still admit them.
func (t *leaseTable) addUnused(c *backend.Check, d *backend.Decision, now time.Time) {
	sh := t.shard(c.Key)
	if sh.size.Load() == 0 || d.Err != nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if l := sh.find(c.Key, c.Limits); l != nil && l.unused > 0 && l.usable(now) {
		d.Allowed, d.RetryIn, d.Remaining = true, 0, d.Remaining+l.unused
		d.Before -= min(d.Before, l.unused)
	}
}

// reset removes the leases of a key. The hits of pending ones will lapse when they are granted.
func (t *leaseTable) reset(key []byte) {
	sh := t.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for l := sh.keys[string(key)]; l != nil; l = l.next {
		sh.size.Add(-1)
		t.lapse(l)
	}
	delete(sh.keys, string(key))
}

// lapse ends a lease without a settlement.
func (t *leaseTable) lapse(l *lease) {
	t.used.Add(l.granted - l.unused)
	t.lapsed.Add(l.unused)
	l.granted, l.unused = 0, 0
}

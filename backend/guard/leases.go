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
	// minLeaseRate is how many hits a second a key must have in this process to lease: a lease saves as many questions, and
	// costs two.
	minLeaseRate = 10
	// minLeaseSpan is how wide the narrowest bucket must be: unused hits of a narrower one mostly come back too late for it,
	// and count until their window ends.
	minLeaseSpan = time.Second
	// leaseShare is what part of what remains of a limit all replicas together hold by leases: a tenth.
	leaseShare = 10
	// leaseDrift is what part of its time a lease ends early, as the clocks of servers are set faster or slower by up to
	// half as much.
	leaseDrift = 1000
	// grantPause is how long no lease of a key is asked for after the store has granted none.
	grantPause = time.Second
	// sharedPause is how long no lease is asked for after a check under other limits of the same state had to settle one.
	sharedPause = 10 * time.Second
	// maxLeases is how many leases a shard holds; leaseShards is how many shards there are, a power of two.
	maxLeases, leaseShards = 128, 64
	// bucketDoubt is how long after the end of a bucket no lease is asked for: it was told too early by the way of the
	// answer, and a lease that is granted before the end would be over at once.
	bucketDoubt = 5 * time.Millisecond
	// keepTime is how long a lease is kept after its end, so that the next one is as long as what is left of its bucket.
	keepTime = 2 * time.Second
)

// leases are hits that the store has granted this process; see backend.Lease. All its methods may be called by any
// number of goroutines.
type leases struct {
	enabled  bool
	replicas func() int
	seed     maphash.Seed
	shards   [leaseShards]leaseShard

	grants                          atomic.Uint64 // leases
	granted, used, returned, lapsed atomic.Uint64 // their hits; the last three once they are settled
}

type leaseShard struct {
	mu   sync.Mutex
	keys map[string]*lease // of each key the first of its leases
	size atomic.Int32      // leases
}

// lease is what is known of the leases of a key under some limits: the last one, until it is settled, and the next one
// that is asked for. Its times are on the monotonic clock, but for chargedAt.
type lease struct {
	next            *lease // of the same key under other limits
	limits          []descriptors.Limit
	granted, unused uint64 // hits; granted is 0 if there is none to settle
	state           uint64
	chargedAt       time.Time // by the store's clock
	bucketEnds      time.Time // the bucket in which it was charged; zero: there was no lease yet
	ends            time.Time

	strictest         int
	before, remaining uint64    // of the strictest limit: what counts as far as this process knows, and what remains
	resetAt           time.Time // of the strictest limit

	pending   *pendingLease // nil: none
	askAfter  time.Time     // no lease is asked for until then, as none was granted
	abandoned abandoned
}

// pendingLease is what the store is asked for with a check. Done has to be told what was decided, or the key never
// leases again.
type pendingLease struct {
	backend.Lease
	of    *leases
	check *backend.Check
	sent  time.Time
}

func (l *leases) init(enabled bool, replicas func() int) {
	l.enabled, l.replicas, l.seed = enabled, replicas, maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].keys = make(map[string]*lease)
	}
}

func (l *leases) shard(key []byte) *leaseShard {
	return &l.shards[maphash.Bytes(l.seed, key)&(leaseShards-1)]
}

// find returns the lease of a key under some limits, nil if there is none.
func (sh *leaseShard) find(key []byte, limits []descriptors.Limit) *lease {
	k := sh.keys[string(key)]
	for k != nil && !slices.Equal(k.limits, limits) {
		k = k.next
	}
	return k
}

// decide decides check i of a call by a lease, and reports whether it could. Else the call settles before it the leases of
// the key that count in the same states, and decide returns the lease that the check is to ask for, nil for none.
//
// Refunds of a key that leases give their hits back to the lease: others may use them once it is settled. That of an
// operator, which does not lease, is for all at once.
func (l *leases) decide(of *call, i int) (decided bool, asks *pendingLease) {
	c, now := &of.checks[i], of.began
	wanted := c.Leases && c.Rate >= minLeaseRate && len(c.Key) <= maxKey && c.MayLease() &&
		backend.LeaseSpan(c.Limits) >= minLeaseSpan && of.alone(i)
	sh := l.shard(c.Key)
	if c.Op == backend.Look || !wanted && sh.size.Load() == 0 {
		return false, nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.find(c.Key, c.Limits)
	if k != nil && c.Leases && k.decide(c, now, &of.out[i]) {
		return true, nil
	}
	for other := sh.keys[string(c.Key)]; other != nil; other = other.next {
		if other.granted > 0 && sharesState(other.limits, c.Limits) && of.settle(i, other.settlement(c.Key)) {
			if other.granted, other.unused = 0, 0; other != k {
				other.askAfter = now.Add(sharedPause)
			}
		}
	}
	if !wanted {
		return false, nil
	}
	return false, l.want(sh, k, c, now)
}

// alone reports whether no other check of the call counts in the states of check i: it would be denied by its lease.
func (c *call) alone(i int) bool {
	one := &c.checks[i]
	for j := range c.checks {
		if other := &c.checks[j]; j != i && bytes.Equal(other.Key, one.Key) && sharesState(other.Limits, one.Limits) {
			return false
		}
	}
	return true
}

// sharesState reports whether some limits count in a state in which others do.
func sharesState(a, b []descriptors.Limit) bool {
	return slices.ContainsFunc(a, func(one descriptors.Limit) bool {
		return slices.ContainsFunc(b, func(other descriptors.Limit) bool { return one.SameState(&other) })
	})
}

// want returns the lease that a key needs, nil if it needs none or may not ask. k is nil if the shard does not hold it.
func (l *leases) want(sh *leaseShard, k *lease, c *backend.Check, now time.Time) *pendingLease {
	share := leaseShare * uint64(max(1, l.replicas()))
	hits := k.need(c, share, now)
	switch {
	case hits < backend.MinLeaseHits:
		return nil
	case k == nil && sh.size.Load() >= maxLeases:
		return nil
	case k == nil:
		k = &lease{limits: slices.Clone(c.Limits), next: sh.keys[string(c.Key)]} // those of an override are the request's
		sh.keys[string(c.Key)] = k
		sh.size.Add(1)
	case k.pending != nil || k.granted > 0 || !now.After(k.askAfter):
		return nil
	}
	state := 1 + rand.Uint64N(1<<53-1) // as many as a script can tell
	k.pending = &pendingLease{backend.Lease{Want: hits, Share: share, Abandoned: k.abandoned.sum(longest(k.limits), now),
		State: state}, l, c, now}
	return k.pending
}

// need returns how many hits a key needs until a lease ends that is granted now, 0 if a limit is too small for as many.
// k may be nil.
func (k *lease) need(c *backend.Check, share uint64, now time.Time) uint64 {
	span := backend.LeaseSpan(c.Limits)
	rest := span
	if k != nil && !k.bucketEnds.IsZero() {
		if rest = k.bucketEnds.Sub(now) % span; rest <= 0 {
			rest += span
		}
		if rest > span-min(span/20, bucketDoubt) {
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
func (k *lease) usable(now time.Time) bool { return k.granted > 0 && now.Before(k.ends) }

// decide answers a check by a lease's unused hits, or takes its hits back, if the lease can.
func (k *lease) decide(c *backend.Check, now time.Time, out *backend.Decision) bool {
	if !k.usable(now) {
		return false
	}
	before := k.before
	switch {
	case c.Op == backend.Refund && c.Hits <= k.granted-k.unused:
		k.unused, k.before, k.remaining = k.unused+c.Hits, k.before-c.Hits, k.remaining+c.Hits
	case c.MayLease() && c.Hits <= k.unused:
		k.unused, k.before, k.remaining = k.unused-c.Hits, k.before+c.Hits, k.remaining-c.Hits
	default:
		return false
	}
	*out = backend.Decision{Allowed: true, Source: backend.FromLease, Strictest: k.strictest, Before: before,
		Remaining: k.remaining, ResetIn: max(0, k.resetAt.Sub(now))}
	return true
}

// Done begins the lease if the store granted one, given its decision on the check.
func (q *pendingLease) Done(d *backend.Decision) {
	l, c := q.of, q.check
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.find(c.Key, c.Limits)
	l.granted.Add(q.Hits)
	if k == nil || k.pending != q { // the key was reset since
		l.lapsed.Add(q.Hits)
		return
	}
	k.pending = nil
	switch {
	case q.Hits > 0:
		l.grants.Add(1)
		k.abandoned.add(k.unused, longest(k.limits), q.sent)
		l.lapse(k) // one that could not be settled
		lasts := q.Lasts(k.limits)
		k.granted, k.unused, k.state, k.chargedAt = q.Hits, q.Hits, q.State, q.Now
		k.bucketEnds, k.ends = q.sent.Add(lasts), q.sent.Add(min(lasts-lasts/leaseDrift, backend.MaxLeaseTime))
		k.strictest, k.before, k.remaining, k.resetAt = d.Strictest, d.Before+c.Hits, d.Remaining, q.sent.Add(d.ResetIn)
	case !unasked(d.Err): // the limit is near, or the store is slow: a check with a question costs it twice as much
		k.askAfter = q.sent.Add(grantPause)
		if d.Err != nil { // the store may have granted what nobody will use
			k.abandoned.add(q.Want, longest(k.limits), q.sent)
		}
	}
}

// unasked reports whether an error proves that the store was not asked.
func unasked(err error) bool {
	reason := backend.ReasonOf(err)
	return err != nil && (reason == backend.Down || reason == backend.Busy)
}

// addUnused adds to the answer to a look what this process may admit by a lease of the key.
func (l *leases) addUnused(c *backend.Check, d *backend.Decision, now time.Time) {
	sh := l.shard(c.Key)
	if sh.size.Load() == 0 || d.Err != nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.find(c.Key, c.Limits); k != nil && k.unused > 0 && k.usable(now) {
		d.Allowed, d.RetryIn, d.Remaining = true, 0, d.Remaining+k.unused
		d.Before -= min(d.Before, k.unused)
	}
}

// reset ends the leases of a key, and voids those whose grants are still to come.
func (l *leases) reset(key []byte) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for k := sh.keys[string(key)]; k != nil; k = k.next {
		sh.size.Add(-1)
		l.lapse(k)
	}
	delete(sh.keys, string(key))
}

// lapse ends a lease without a settlement.
func (l *leases) lapse(k *lease) {
	l.used.Add(k.granted - k.unused)
	l.lapsed.Add(k.unused)
	k.granted, k.unused = 0, 0
}

package guard

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

const (
	// leaseShare is what part of what remains of a limit all replicas together hold by leases: a tenth.
	leaseShare = 10
	// leaseDrift is what part of its time a lease ends early, as the clocks of servers are set faster or slower by up to
	// half as much.
	leaseDrift = 1000
	// grantPause is how long at most no lease of a key is asked for after the store has granted none.
	grantPause = time.Second
	// maxLeasedKeys is how many keys a shard holds, fewer for small leases, so that keys that are asked for once a minute
	// leave room for busy ones; leaseShards is how many shards there are, a power of two.
	maxLeasedKeys, maxKeysForSmall, leaseShards = 512, 384, 64
	// maxLastSettled is how many leases are settled when the guard closes, within lastSettleTimeout.
	maxLastSettled, lastSettleTimeout = 4096, time.Second
)

// leases are hits that the store has granted this process; see backend.Lease. All its methods may be called by any
// number of goroutines.
type leases struct {
	enabled  bool
	replicas func() int
	seed     maphash.Seed
	shards   [leaseShards]leaseShard

	grants                            atomic.Uint64 // leases
	granted, used, returned, stranded atomic.Uint64 // their hits
}

type leaseShard struct {
	mu     sync.Mutex
	keys   map[string]*leasedKey
	size   atomic.Int32 // of keys
	former formerKeys
}

// leasedKey is what is known of a key's leases: the last one, until it is settled, and a question for the next one. Its
// times are on the monotonic clock, but for chargedAt.
type leasedKey struct {
	limits          []descriptors.Limit
	granted, unused uint64    // hits of the lease, and those not used; granted is 0 if there is none to settle
	chargedAt       time.Time // by the store's clock
	bucketEnds      time.Time // the bucket in which it was charged; zero: there was no lease yet
	ends            time.Time // the lease

	strictest         int
	before, remaining uint64    // of the strictest limit: what counts as far as this process knows, and what remains
	resetAt           time.Time // of the strictest limit

	question *backend.Lease // for a lease, without an answer yet; nil: none
	askAfter time.Time      // no lease is asked for until then, as none was granted
	stranded stranded
}

func (l *leases) init(enabled bool, replicas func() int) {
	l.enabled, l.replicas, l.seed = enabled, replicas, maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].keys, l.shards[i].former = make(map[string]*leasedKey), make(formerKeys)
	}
}

func (l *leases) shard(key []byte) *leaseShard {
	return &l.shards[maphash.Bytes(l.seed, key)&(leaseShards-1)]
}

// decide decides a check by a lease of its key, and reports whether it could. Else it returns what the store is to be
// asked about leases, together with the check; nil for nothing. learn has to be told the answer.
//
// Refunds of a key that leases give their hits back to the lease: others may use them once it is settled. That of an
// operator, which does not lease, is for all at once.
func (l *leases) decide(c *backend.Check, now time.Time, out *backend.Decision) (decided bool, q *backend.Lease) {
	mayLease := c.Leases && len(c.Key) <= maxKey && c.MayLease()
	sh := l.shard(c.Key)
	if c.Op == backend.Look || !mayLease && sh.size.Load() == 0 {
		return false, nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[string(c.Key)]
	if k != nil && c.Leases && k.decide(c, now, out) {
		if c.Op == backend.Count {
			l.used.Add(c.Hits)
		}
		return true, nil
	}
	if k != nil && k.granted > 0 {
		if q = k.settlement(c, now); q == nil {
			l.strand(k, k.unused, now)
		}
		k.granted = 0
	}
	if mayLease {
		q = l.want(sh, k, c, q, now)
	}
	return false, q
}

// want adds to a question, nil if there is none yet, that a key wants a lease, if it needs one. k is nil for a key that
// the shard does not hold.
func (l *leases) want(sh *leaseShard, k *leasedKey, c *backend.Check, q *backend.Lease, now time.Time) *backend.Lease {
	share := leaseShare * uint64(max(1, l.replicas()))
	hits := k.need(c, share, now)
	if hits < backend.MinLeaseHits || k == nil && !l.makeRoom(sh, hits, now) {
		return q
	}
	if k == nil {
		k = l.add(sh, c)
	}
	if k.question != nil || !now.After(k.askAfter) {
		return q
	}
	if q == nil {
		q = new(backend.Lease)
	}
	q.Want, q.Share, q.Stranded = hits, share, k.stranded.sum(longest(c.Limits), now)
	k.question = q
	return q
}

// add adds a key to its shard, with the hits that it stranded when it was there before.
func (l *leases) add(sh *leaseShard, c *backend.Check) *leasedKey {
	k := new(leasedKey)
	if f := sh.former.take(maphash.Bytes(l.seed, c.Key)); f.stranded > 0 {
		k.limits = slices.Clone(c.Limits)
		k.stranded = stranded{older: f.stranded, since: f.until.Add(-longest(c.Limits))}
	}
	sh.keys[string(c.Key)] = k
	sh.size.Add(1)
	return k
}

// covers reports whether a check may use the lease's hits.
func (k *leasedKey) covers(c *backend.Check, now time.Time) bool {
	return k.granted > 0 && now.Before(k.ends) && slices.Equal(k.limits, c.Limits)
}

// decide answers a check by a lease's unused hits, or takes its hits back, if the lease can.
func (k *leasedKey) decide(c *backend.Check, now time.Time, out *backend.Decision) bool {
	if !k.covers(c, now) {
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

// settlement returns the question that settles the lease, nil if it cannot be settled any more: the store counts under
// other states, or has begun other buckets since, among which one of the same number may be another, if its clock
// stepped back.
func (k *leasedKey) settlement(c *backend.Check, now time.Time) *backend.Lease {
	same := func(a, b descriptors.Limit) bool { return a.SameState(&b) }
	if !slices.EqualFunc(k.limits, c.Limits, same) || k.settleTimeOver(now) {
		return nil
	}
	return &backend.Lease{Granted: k.granted, Unused: k.unused, ChargedAt: k.chargedAt}
}

// settleTimeOver reports whether the end of the lease's bucket is longer ago than the bucket lasted.
func (k *leasedKey) settleTimeOver(now time.Time) bool {
	return now.After(k.bucketEnds.Add(backend.LeaseSpan(k.limits)))
}

// need returns how many hits a key needs until its narrowest bucket ends, or within a whole one if that is not known: at
// most what may be leased of an empty one. k may be nil.
func (k *leasedKey) need(c *backend.Check, share uint64, now time.Time) uint64 {
	if c.Rate <= 0 {
		return 0
	}
	span := backend.LeaseSpan(c.Limits)
	rest := span
	if k != nil && !k.bucketEnds.IsZero() {
		if rest = k.bucketEnds.Sub(now) % span; rest <= 0 {
			rest += span
		}
	}
	n := uint64(math.Ceil(float64(c.Rate) * min(rest, backend.MaxLeaseTime).Seconds()))
	for i := range c.Limits {
		n = min(n, c.Limits[i].Requests/share)
	}
	return n
}

// strand notes hits of a lease that nobody will use. k is nil if the shard no longer holds the key.
func (l *leases) strand(k *leasedKey, hits uint64, now time.Time) {
	l.stranded.Add(hits)
	if k != nil && hits > 0 {
		k.stranded.add(hits, longest(k.limits), now)
	}
}

// makeRoom reports whether a shard has room for one more key, which needs so many hits. It removes some keys whose leases
// are over.
func (l *leases) makeRoom(sh *leaseShard, need uint64, now time.Time) bool {
	most := maxLeasedKeys
	if need <= 2*backend.MinLeaseHits {
		most = maxKeysForSmall
	}
	whileFull(sh.keys, most, func(key string, k *leasedKey) {
		if k.question == nil && now.After(k.ends) && l.makeFormer(sh, key, k, now) {
			sh.remove(key)
		}
	})
	return len(sh.keys) < most
}

// makeFormer notes the hits that a key has stranded, so that it does not lease as much again when it comes back, and
// reports whether the key may go: not while its lease may be settled, nor without room for the note.
func (l *leases) makeFormer(sh *leaseShard, key string, k *leasedKey, now time.Time) bool {
	if k.granted > 0 && k.unused > 0 {
		if !k.settleTimeOver(now) {
			return false
		}
		l.strand(k, k.unused, now)
		k.granted = 0
	}
	span := longest(k.limits)
	hits := k.stranded.sum(span, now)
	return sh.former.add(maphash.String(l.seed, key), formerKey{hits, k.stranded.since.Add(2 * span)}, now)
}

// learn takes in what the store has answered to a question that was sent at a moment.
func (l *leases) learn(c *backend.Check, d *backend.Decision, q *backend.Lease, sent time.Time) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[string(c.Key)]
	current := k != nil && k.question == q // else the key was removed since, or the question was for no lease
	if current {
		k.question = nil
	}
	reason := backend.ReasonOf(d.Err)
	unasked := reason == backend.Down || reason == backend.Busy
	if unasked && k != nil && k.granted == 0 && q.Granted > 0 { // it may be settled yet
		k.granted, k.unused = q.Granted, q.Unused
		return
	}
	l.returned.Add(q.Returned)
	l.strand(k, q.Unused-q.Returned, sent)
	switch {
	case d.Err == nil && q.Hits > 0:
		l.grants.Add(1)
		l.granted.Add(q.Hits)
		if !current {
			l.stranded.Add(q.Hits)
			return
		}
		if k.granted > 0 {
			l.strand(k, k.unused, sent)
		}
		k.begin(c, d, q, sent)
	case current && !unasked: // the limit is near, or the store is slow: a check with a question costs it twice as much
		k.askAfter = sent.Add(min(backend.LeaseSpan(c.Limits), grantPause))
		if d.Err != nil { // the store may have granted what nobody will use
			if k.granted == 0 {
				k.limits = slices.Clone(c.Limits)
			}
			k.stranded.add(q.Want, longest(k.limits), sent)
		}
	}
}

// begin begins the lease that the store has granted.
func (k *leasedKey) begin(c *backend.Check, d *backend.Decision, q *backend.Lease, sent time.Time) {
	if !slices.Equal(k.limits, c.Limits) {
		k.limits = slices.Clone(c.Limits) // those of an override are the request's
	}
	lasts := q.Lasts(c.Limits)
	lasts -= lasts / leaseDrift
	*k = leasedKey{limits: k.limits, granted: q.Hits, unused: q.Hits, chargedAt: q.Now, bucketEnds: sent.Add(lasts),
		ends: sent.Add(min(lasts, backend.MaxLeaseTime)), strictest: d.Strictest, before: d.Before + c.Hits,
		remaining: d.Remaining, resetAt: sent.Add(d.ResetIn), stranded: k.stranded}
}

// addUnused adds to the answer to a look what this process may admit by a lease of the key.
func (l *leases) addUnused(c *backend.Check, d *backend.Decision, now time.Time) {
	sh := l.shard(c.Key)
	if sh.size.Load() == 0 || d.Err != nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := sh.keys[string(c.Key)]; k != nil && k.unused > 0 && k.covers(c, now) {
		d.Allowed, d.RetryIn, d.Remaining = true, 0, d.Remaining+k.unused
		d.Before -= min(d.Before, k.unused)
	}
}

// forget ends a lease of a key, and voids one whose grant is still to come.
func (l *leases) forget(key []byte) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.former.take(maphash.Bytes(l.seed, key))
	if k := sh.keys[string(key)]; k != nil {
		if k.granted > 0 {
			l.stranded.Add(k.unused)
		}
		sh.remove(string(key))
	}
}

// remove removes a key that the shard holds.
func (sh *leaseShard) remove(key string) {
	delete(sh.keys, key)
	sh.size.Add(-1)
}

// close settles what can be settled at once. The rest leaves with its window.
func (l *leases) close(store backend.Counter, now time.Time) {
	var checks []backend.Check
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for key, k := range sh.keys {
			c := backend.Check{Key: []byte(key), Limits: k.limits, Op: backend.Refund}
			if k.granted > 0 && len(checks) < maxLastSettled {
				if c.Lease = k.settlement(&c, now); c.Lease != nil {
					checks = append(checks, c)
					k.granted = 0
				}
			}
		}
		sh.mu.Unlock()
	}
	if len(checks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSettleTimeout)
	defer cancel()
	out := make([]backend.Decision, len(checks))
	_ = store.Decide(ctx, checks, out) // each answer has its error
	for i := range checks {
		l.learn(&checks[i], &out[i], checks[i].Lease, now)
	}
}

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
	// noneLasts is how long a key is not asked about again at most if the store has granted nothing.
	noneLasts = time.Second
	// maxLeases is how many keys a shard knows leases of at most, fewer for small leases, so that keys that are asked for
	// once a minute leave room for busy ones; leaseShards is how many shards there are, a power of two.
	maxLeases, maxSmallLeases, leaseShards = 512, 384, 64
	// lastSettled is how many leases are settled at the end, in at most lastSettling.
	lastSettled, lastSettling = 4096, time.Second
)

// leases are hits that the store has granted this process; see backend.Lease. All its methods may be called by any
// number of goroutines.
type leases struct {
	on       bool
	replicas func() int
	seed     maphash.Seed
	shards   [leaseShards]leaseShard

	granted, grants, used, returned, left atomic.Uint64
}

type leaseShard struct {
	mu    sync.Mutex
	known map[string]*lease
	size  atomic.Int32 // of known
	owed  owed         // by keys that gave their places to others
}

// lease is what is known of a key's leases: the last one, until it is settled, and a question for the next one. Its
// times are on the monotonic clock, but for at.
type lease struct {
	limits          []descriptors.Limit
	granted, unused uint64    // its hits, and those not used; granted is 0 if there is none to settle
	at              time.Time // by the store's clock
	bucket          time.Time // when the bucket is over that it was charged in; zero: never was one
	ends            time.Time
	asking          *backend.Lease // nil: nobody asks for one
	none            time.Time      // until when nobody asks again, as none was granted
	strictest       int
	before, remain  uint64    // of the strictest limit: what counts of which this process knows, and what remains
	reset           time.Time // of the strictest limit

	// Unused hits that were left behind, of the time from since on, and of as much time before, a window.
	left, older uint64
	since       time.Time
}

func (l *leases) init(on bool, replicas func() int) {
	l.on, l.replicas, l.seed = on, replicas, maphash.MakeSeed()
	for i := range l.shards {
		l.shards[i].known, l.shards[i].owed = make(map[string]*lease), make(owed)
	}
}

func (l *leases) shard(key []byte) *leaseShard {
	return &l.shards[maphash.Bytes(l.seed, key)&(leaseShards-1)]
}

// begin makes a place for a key, with what it owes.
func (l *leases) begin(sh *leaseShard, c *backend.Check) *lease {
	e := new(lease)
	if d := sh.owed.take(maphash.Bytes(l.seed, c.Key)); d.hits > 0 {
		e.limits, e.older, e.since = slices.Clone(c.Limits), d.hits, d.until.Add(-longest(c.Limits))
	}
	sh.known[string(c.Key)] = e
	sh.size.Add(1)
	return e
}

// ask decides a check by a lease of its key, and reports whether it could. Else it returns what the store is to be
// asked about leases, together with the check; nil for nothing. The answer has to be brought to answered.
//
// Refunds of a key that leases give their hits back to the lease: others may use them once it is settled. That of an
// operator, which does not lease, is for all at once.
func (l *leases) ask(c *backend.Check, now time.Time, out *backend.Decision) (decided bool, q *backend.Lease) {
	want := c.Leases && len(c.Key) <= maxDeniedKey && c.MayLease()
	sh := l.shard(c.Key)
	if c.Op == backend.Look || !want && sh.size.Load() == 0 {
		return false, nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.known[string(c.Key)]
	if e != nil && c.Leases && e.decide(c, now, out) {
		if c.Op == backend.Count {
			l.used.Add(c.Hits)
		}
		return true, nil
	}
	if e != nil && e.granted > 0 {
		if q = e.settle(c, now); q == nil {
			l.leave(e, e.unused, now)
		}
		e.granted = 0
	}
	if !want {
		return false, q
	}
	share := leaseShare * uint64(max(1, l.replicas()))
	if n := e.need(c, share, now); n >= backend.Handful && (e != nil || l.room(sh, n, now)) {
		if e == nil {
			e = l.begin(sh, c)
		}
		if e.asking == nil && now.After(e.none) {
			if q == nil {
				q = new(backend.Lease)
			}
			q.Want, q.Share, q.Left = n, share, e.behind(c.Limits, now)
			e.asking = q
		}
	}
	return false, q
}

// decide answers a check by a lease's unused hits, or takes its hits back, if the lease can.
func (e *lease) decide(c *backend.Check, now time.Time, out *backend.Decision) bool {
	if e.granted == 0 || !now.Before(e.ends) || !slices.Equal(e.limits, c.Limits) {
		return false
	}
	d := backend.Decision{Allowed: true, Source: backend.FromLease, Strictest: e.strictest, Before: e.before,
		ResetIn: max(0, e.reset.Sub(now))}
	switch {
	case c.Op == backend.Refund && c.Hits <= e.granted-e.unused:
		e.unused, e.before, e.remain = e.unused+c.Hits, e.before-c.Hits, e.remain+c.Hits
	case c.MayLease() && c.Hits <= e.unused:
		e.unused, e.before, e.remain = e.unused-c.Hits, e.before+c.Hits, e.remain-c.Hits
	default:
		return false
	}
	d.Remaining = e.remain
	*out = d
	return true
}

// settle returns how the store is told of the lease's end, nil if it cannot be any more: it counts under other states,
// or has begun other buckets since, among which one of the same number may be another, if its clock stepped back.
func (e *lease) settle(c *backend.Check, now time.Time) *backend.Lease {
	same := func(a, b descriptors.Limit) bool { return a.SameState(&b) }
	if !slices.EqualFunc(e.limits, c.Limits, same) || now.After(e.bucket.Add(backend.LeaseSpan(e.limits))) {
		return nil
	}
	return &backend.Lease{Granted: e.granted, Unused: e.unused, At: e.at}
}

// need returns how many hits a key needs until its narrowest bucket is over, as far as it is known when that is: at most
// what may be leased of an empty one.
func (e *lease) need(c *backend.Check, share uint64, now time.Time) uint64 {
	if c.Rate <= 0 {
		return 0
	}
	span := backend.LeaseSpan(c.Limits)
	rest := span
	if e != nil && !e.bucket.IsZero() {
		if rest = e.bucket.Sub(now) % span; rest <= 0 {
			rest += span
		}
	}
	n := uint64(math.Ceil(float64(c.Rate) * min(rest, backend.LongestLease).Seconds()))
	for i := range c.Limits {
		n = min(n, c.Limits[i].Requests/share)
	}
	return n
}

// leave leaves unused hits of a lease behind: they count until their window ends. The key may be forgotten.
func (l *leases) leave(e *lease, hits uint64, now time.Time) {
	l.left.Add(hits)
	if e != nil && hits > 0 {
		e.lose(hits, now)
	}
}

// lose notes hits that count, and that nobody will use.
func (e *lease) lose(hits uint64, now time.Time) {
	e.behind(e.limits, now)
	e.left += hits
}

// behind returns at least as many hits as were left behind and still count.
func (e *lease) behind(limits []descriptors.Limit, now time.Time) uint64 {
	long := longest(limits)
	switch passed := now.Sub(e.since); {
	case passed >= 2*long:
		e.left, e.older, e.since = 0, 0, now
	case passed >= long:
		e.left, e.older, e.since = 0, e.left, now
	}
	return e.left + e.older
}

// longest returns how long a hit counts under some limits at most.
func longest(limits []descriptors.Limit) (long time.Duration) {
	for i := range limits {
		long = max(long, limits[i].Window+limits[i].Precision)
	}
	return long
}

// room reports whether a shard has room for one more key, which needs so many hits. It forgets some keys whose leases are
// over; of what they owe it knows all, so that they do not lease as much again.
func (l *leases) room(sh *leaseShard, need uint64, now time.Time) bool {
	places, seen := maxLeases, 0
	if need <= 2*backend.Handful {
		places = maxSmallLeases
	}
	for key, e := range sh.known {
		if len(sh.known) < places || seen == 16 {
			break
		}
		if seen++; e.asking == nil && now.After(e.ends) && l.noteOwed(sh, key, e, now) {
			l.forgetIn(sh, key)
		}
	}
	return len(sh.known) < places
}

// noteOwed notes what a key owes, and reports whether its place may be taken: a lease may yet be settled until its end
// is as long ago as it lasted, and there may be no room for the note.
func (l *leases) noteOwed(sh *leaseShard, key string, e *lease, now time.Time) bool {
	if e.granted > 0 && e.unused > 0 {
		if !now.After(e.bucket.Add(backend.LeaseSpan(e.limits))) {
			return false
		}
		l.leave(e, e.unused, now)
		e.granted = 0
	}
	d := debt{e.behind(e.limits, now), e.since.Add(2 * longest(e.limits))}
	return sh.owed.note(maphash.String(l.seed, key), d, now)
}

// answered learns what the store has answered to a question about leases, which was sent at a moment.
func (l *leases) answered(c *backend.Check, d *backend.Decision, q *backend.Lease, sent time.Time) {
	sh := l.shard(c.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.known[string(c.Key)]
	mine := e != nil && e.asking == q
	if mine {
		e.asking = nil
	}
	why := backend.ReasonOf(d.Err)
	unasked := d.Err != nil && (why == backend.Down || why == backend.Busy)
	if unasked && e != nil && e.granted == 0 && q.Granted > 0 {
		e.granted, e.unused = q.Granted, q.Unused
		return
	}
	l.returned.Add(q.Returned)
	l.leave(e, q.Unused-q.Returned, sent)
	if q.Hits == 0 || d.Err != nil {
		if mine && !unasked { // the limit is near, or the store is slow: a check with a question costs it twice as much
			e.none = sent.Add(min(backend.LeaseSpan(c.Limits), noneLasts))
		}
		if mine && d.Err != nil && !unasked { // the store may have granted what nobody will use
			if e.granted == 0 {
				e.limits = slices.Clone(c.Limits)
			}
			e.lose(q.Want, sent)
		}
		return
	}
	l.grants.Add(1)
	l.granted.Add(q.Hits)
	if !mine { // somebody has reset the key
		l.left.Add(q.Hits)
		return
	}
	if e.granted > 0 {
		l.leave(e, e.unused, sent)
	}
	lasts := q.Ends(c.Limits)
	lasts -= lasts / leaseDrift
	*e = lease{limits: e.limits, granted: q.Hits, unused: q.Hits, at: q.Now, bucket: sent.Add(lasts),
		ends: sent.Add(min(lasts, backend.LongestLease)), strictest: d.Strictest, before: d.Before + c.Hits, remain: d.Remaining,
		reset: sent.Add(d.ResetIn), left: e.left, older: e.older, since: e.since}
	if !slices.Equal(e.limits, c.Limits) {
		e.limits = slices.Clone(c.Limits) // those of an override are the request's
	}
}

// beside adds to the answer to a look what this process may admit by a lease of the key.
func (l *leases) beside(c *backend.Check, d *backend.Decision, now time.Time) {
	sh := l.shard(c.Key)
	if sh.size.Load() == 0 || d.Err != nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.known[string(c.Key)]; e != nil && e.granted > 0 && e.unused > 0 && now.Before(e.ends) && slices.Equal(e.limits, c.Limits) {
		d.Allowed, d.RetryIn, d.Remaining = true, 0, d.Remaining+e.unused
		d.Before -= min(d.Before, e.unused)
	}
}

// forget ends a lease of a key, and voids one that is on its way.
func (l *leases) forget(key []byte) {
	sh := l.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.owed.take(maphash.Bytes(l.seed, key))
	l.forgetIn(sh, string(key))
}

func (l *leases) forgetIn(sh *leaseShard, key string) {
	if e := sh.known[key]; e != nil {
		if e.granted > 0 {
			l.left.Add(e.unused)
		}
		delete(sh.known, key)
		sh.size.Add(-1)
	}
}

// close settles what can be settled at once. The rest leaves with its window.
func (l *leases) close(store backend.Counter, now time.Time) {
	var checks []backend.Check
	for i := range l.shards {
		sh := &l.shards[i]
		sh.mu.Lock()
		for key, e := range sh.known {
			c := backend.Check{Key: []byte(key), Limits: e.limits, Op: backend.Refund}
			if e.granted > 0 && len(checks) < lastSettled {
				if c.Lease = e.settle(&c, now); c.Lease != nil {
					checks = append(checks, c)
					e.granted = 0
				}
			}
		}
		sh.mu.Unlock()
	}
	if len(checks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSettling)
	defer cancel()
	out := make([]backend.Decision, len(checks))
	_ = store.Decide(ctx, checks, out) // each answer has its error
	for i := range checks {
		l.answered(&checks[i], &out[i], checks[i].Lease, now)
	}
}

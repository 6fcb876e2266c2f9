// Package guard wraps a store that may be away, and answers without it where it can: from cached denials, from hits that
// the store has leased to this process, and, while the store gives no answer, by the failure policy of the check.
// FAILURE.md has the consequences for operators, fault by fault.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// Guard is a backend.Store that asks the wrapped store only if it must. Make one with New.
type Guard struct {
	store     backend.Store
	policy    descriptors.Policy
	denyCache denyCache
	leases    leaseTable
	local     backend.Counter // nil if no check has that policy
	replicas  func() int
	now       func() time.Time
	calls     sync.Pool // of *call
	stop      context.CancelFunc
	running   sync.WaitGroup

	denyLookups, denyHits atomic.Uint64 // of the deny cache
}

var _ backend.Store = (*Guard)(nil)

// Config has the failure policy and the settings of the caches.
type Config struct {
	// Policy is for checks that have none of their own; the zero value is descriptors.PolicyError.
	Policy descriptors.Policy
	// Replicas returns how many processes share a limit while each counts by itself: at least 1. Nil means 1. It is
	// called for each call that is decided locally, and must not block.
	Replicas func() int
	// FixedWindowBytes, if above 0, caches denials of rules with one fixed window until the window ends, as
	// envoyproxy/ratelimit's local cache does: denials from the cache are not counted. The cache has room for at least
	// 65,536 keys, and for one more for each 320 bytes above 20 MiB. This replica does not notice a reset or refund by
	// another one until the window ends.
	FixedWindowBytes int64
	// Local is the store that counts in this process by descriptors.PolicyLocal; Close closes it. It may be nil if no
	// check has that policy.
	Local backend.Counter
	// Leases makes the guard lease hits for busy keys from the store, and admit checks from them.
	Leases bool
	// Now, if not nil, replaces the monotonic clock in tests, which then call Settle themselves.
	Now func() time.Time
}

// New makes a guard that wraps a store. Close closes both.
func New(store backend.Store, c Config) *Guard {
	if c.Replicas == nil {
		c.Replicas = func() int { return 1 }
	}
	settles := c.Leases && c.Now == nil
	if c.Now == nil {
		c.Now = time.Now
	}
	g := &Guard{store: store, policy: cmp.Or(c.Policy, descriptors.PolicyError), now: c.Now, local: c.Local, replicas: c.Replicas}
	g.denyCache.init(c.FixedWindowBytes)
	g.leases.init(c.Leases, c.Replicas)
	g.calls.New = func() any { return new(call) }
	ctx, stop := context.WithCancel(context.Background())
	if g.stop = stop; settles {
		g.running.Go(func() { g.settleLeases(ctx) })
	}
	return g
}

// settleLeases settles ended leases until ctx ends.
func (g *Guard) settleLeases(ctx context.Context) {
	tick := time.NewTicker(settleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.leases.settleEnded(ctx, g.store, g.now(), false, &g.running)
		}
	}
}

// Settle settles the ended leases. Unless Config.Now is set, the guard does so itself, twice per backend.SettleTime.
func (g *Guard) Settle(ctx context.Context) {
	var running sync.WaitGroup
	g.leases.settleEnded(ctx, g.store, g.now(), false, &running)
	running.Wait()
}

// maxKey is the longest key, in bytes, whose denials are cached and for which hits are leased.
const maxKey = 1024

// call is one call of Decide. Calls are pooled, so that Decide allocates nothing.
type call struct {
	checks []backend.Check
	out    []backend.Decision
	start  time.Time

	plans      []plan         // by check
	decided    int            // number of checks decided without the store
	refused    bool           // a cached denial refuses the whole request
	asksLeases bool           // a check asks for a lease, or settles one
	part       backend.Subset // the checks for the store, unless it gets the caller's checks unchanged

	settlements []settlement
}

// settlement is a check that settles a lease. The store decides it before the call's check with this index.
type settlement struct {
	index int
	check backend.Check
}

// plan says how one check of a call is decided.
type plan struct {
	decided bool          // it is decided, without the store
	denial  denialSlot    // where its denial is cached
	lease   *pendingLease // the lease to ask the store for; nil for none
}

// Decide answers checks from cached denials and leases, lets the store decide the rest, and applies the failure policies
// to checks without an answer. After that only checks with the policy error have an Err.
//
// A count that a cached denial covers is denied without the store. If such a denial refuses the whole request, the
// call's other counts become looks, except those that charge whatever the verdict. Otherwise counts are admitted from
// leases while these have hits.
func (g *Guard) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if len(out) < len(checks) {
		return backend.Validate(checks, out)
	}
	c := g.calls.Get().(*call)
	c.checks, c.out, c.start = checks, out, g.now()
	g.denyCached(c)
	if g.leases.enabled && c.decided < len(checks) {
		g.decideFromLeases(c)
	}
	var err error
	switch {
	case c.decided == 0 && !c.asksLeases:
		err = g.store.Decide(ctx, checks, out)
	case c.decided < len(checks):
		err = g.decideRest(ctx, c)
	}
	if away := g.record(c, err); away && err == nil {
		g.degrade(ctx, c)
	}
	clear(c.plans)
	clear(c.settlements)
	*c = call{plans: c.plans[:0], part: c.part, settlements: c.settlements[:0]}
	g.calls.Put(c)
	return err
}

// denyCached denies the checks of a call whose denials are cached.
func (g *Guard) denyCached(c *call) {
	cacheable := 0
	refunds := false // then nothing is denied: a count of the same call may need the returned hits
	for i := range c.checks {
		refunds = refunds || c.checks[i].Op == backend.Refund
	}
	for i := range c.checks {
		var p plan
		p.denial, p.decided = g.denyCache.lookUp(&c.checks[i], c.start, &c.out[i])
		if p.decided = p.decided && !refunds; p.decided {
			c.decided++
			c.refused = c.refused || c.checks[i].Enforced
		}
		if p.denial.shard != nil {
			cacheable++
		}
		c.plans = append(c.plans, p)
	}
	g.denyHits.Add(uint64(c.decided))
	g.denyLookups.Add(uint64(cacheable))
}

// uncharged reports whether check i becomes a look because its request is refused anyway.
func (c *call) uncharged(i int) bool {
	check := &c.checks[i]
	return c.refused && !c.plans[i].decided && check.Op == backend.Count && !check.ChargesAlways()
}

// decideFromLeases decides checks that are not denied yet from leases, as far as possible. A request that is refused
// anyway uses no leased hits.
func (g *Guard) decideFromLeases(c *call) {
	for i := range c.checks {
		p := &c.plans[i]
		if p.decided || c.uncharged(i) {
			continue
		}
		if p.decided, p.lease = g.leases.decide(c, i); p.decided {
			c.decided++
		}
		c.asksLeases = c.asksLeases || p.lease != nil
	}
}

// addSettlement adds a settlement before check i. It returns false if the call has no room for it.
func (c *call) addSettlement(i int, check backend.Check) bool {
	if len(c.checks)+len(c.settlements) >= backend.MaxChecks {
		return false
	}
	c.settlements, c.asksLeases = append(c.settlements, settlement{i, check}), true
	return true
}

// decideRest lets the store decide the undecided checks of the call, and the settlements before them.
func (g *Guard) decideRest(ctx context.Context, c *call) error {
	settlements := c.settlements
	for i := range c.checks {
		for ; len(settlements) > 0 && settlements[0].index == i; settlements = settlements[1:] {
			*c.part.Add(c.checks, i) = settlements[0].check
		}
		if p := &c.plans[i]; !p.decided {
			if check := c.addTo(&c.part, i); p.lease != nil {
				check.Lease = &p.lease.Lease
			}
		}
	}
	err := g.store.Decide(ctx, c.part.Checks, c.part.Out)
	for i := range c.part.Checks {
		if check := &c.part.Checks[i]; check.Op == backend.Refund && check.Lease != nil {
			g.leases.finishSettlement(check, cmp.Or(err, c.part.Out[i].Err), c.start)
		}
	}
	c.part.CopyTo(c.out)
	c.part.Reset()
	for i := range c.checks {
		if d := &c.out[i]; err == nil && d.Err == nil && c.uncharged(i) {
			g.leases.addUnused(&c.checks[i], d, c.start)
			d.Source = backend.FromLook
			lookToCount(d, &c.checks[i])
		}
	}
	return err
}

// addTo adds check i to a part, as a look if it is uncharged, and returns the added check.
func (c *call) addTo(part *backend.Subset, i int) *backend.Check {
	check := part.Add(c.checks, i)
	if c.uncharged(i) {
		check.Op = backend.Look
	}
	return check
}

// lookToCount turns the answer to a look into the answer to the count that it replaced. A look does not tell how long a
// count of several hits must wait, so RetryIn is the least possible wait: until the first hit leaves its window.
func lookToCount(d *backend.Decision, check *backend.Check) {
	if !d.Allowed || check.Hits <= d.Remaining {
		return
	}
	d.Allowed, d.Remaining, d.RetryIn = false, 0, d.ResetIn
	if neverFits(check) {
		d.RetryIn = backend.Never
	}
}

// record caches the store's denials and leases, and evicts denials that a refund may have ended. err is why the store
// answered none of the checks. record reports whether any check has no answer.
func (g *Guard) record(c *call, err error) (away bool) {
	for i := range c.checks {
		check, d, p := &c.checks[i], &c.out[i], &c.plans[i]
		if err != nil {
			d = &backend.Decision{Err: err}
		}
		away = away || d.Err != nil
		if p.lease != nil {
			p.lease.Done(d)
		}
		switch {
		case check.Op == backend.Refund:
			g.denyCache.evict(check.Key)
		case check.Op == backend.Look && g.leases.enabled:
			g.leases.addUnused(check, d, c.start)
		case !p.decided && !d.Allowed && d.Err == nil && d.Source == backend.FromStore:
			g.denyCache.add(check, d, p.denial, c.start, g.now())
		}
	}
	return away
}

// neverFits reports whether a check has more hits than one of its limits admits at once.
func neverFits(c *backend.Check) bool {
	return slices.ContainsFunc(c.Limits, func(l descriptors.Limit) bool { return c.Hits > l.Capacity() })
}

// Inspect asks the store.
func (g *Guard) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return g.store.Inspect(ctx, key, limits)
}

// Reset removes a key from the store, and its denials and leases from this process.
func (g *Guard) Reset(ctx context.Context, key []byte) error {
	err := g.store.Reset(ctx, key)
	g.denyCache.evict(key)
	g.leases.reset(key)
	return err
}

// Close settles the leases, and closes the store and the local counter.
func (g *Guard) Close() error {
	g.stop()
	g.running.Wait()
	g.leases.settleEnded(context.Background(), g.store, g.now(), true, &g.running) // leased hits that cannot be settled count until their window ends
	g.running.Wait()
	err := g.store.Close()
	if g.local != nil {
		err = errors.Join(err, g.local.Close())
	}
	if err != nil {
		return fmt.Errorf("closing the counters: %w", err)
	}
	return nil
}

// Stats are totals since the start, except DenyCacheKeys, which is the current number.
type Stats struct {
	DenyCacheHits    uint64 // checks denied from the cache
	DenyCacheLookups uint64 // checks that were looked up, including DenyCacheHits
	DenyCacheKeys    int

	Leases       uint64 // leases that the store granted
	LeaseGranted uint64 // hits of these leases
	// The next three add up to LeaseGranted once all leases are settled.

	LeaseUsed     uint64 // hits that were admitted by leases
	LeaseReturned uint64 // unused hits that the store took back
	LeaseLapsed   uint64 // unused hits that count until they leave their window
}

// Stats returns the guard's totals.
func (g *Guard) Stats() Stats {
	return Stats{DenyCacheHits: g.denyHits.Load(), DenyCacheLookups: g.denyLookups.Load(), DenyCacheKeys: g.denyCache.keys(),
		Leases: g.leases.grants.Load(), LeaseGranted: g.leases.granted.Load(),
		LeaseUsed: g.leases.used.Load(), LeaseReturned: g.leases.returned.Load(), LeaseLapsed: g.leases.lapsed.Load()}
}

// Package guard stands before a store that may be away, and answers what it can without it: denials that this process
// knows already, hits that the store has leased to it, and, while the store gives no answer, whatever the failure policy
// of a check says. FAILURE.md tells an operator what that means, fault by fault.
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

// Guard is a backend.Counter that asks its store only where it has to. The zero Guard is not usable; make one with New.
type Guard struct {
	store    backend.Store
	policy   descriptors.Policy
	denied   denyCache
	leases   leases
	local    backend.Counter // nil if no check has that policy
	replicas func() int
	now      func() time.Time
	calls    sync.Pool // of *call
	stop     context.CancelFunc
	running  sync.WaitGroup

	lookups, hits atomic.Uint64 // of the deny cache
}

var _ backend.Store = (*Guard)(nil)

// Config says what becomes of checks whose store is away.
type Config struct {
	// Policy is for checks that have none of their own; the zero value is descriptors.PolicyError.
	Policy descriptors.Policy
	// Replicas returns how many processes share a limit while each counts by itself: at least 1. Nil means that this
	// one is alone. It is asked for each call that is decided so, and must not wait.
	Replicas func() int
	// FixedWindowBytes, above 0, keeps denials of rules with one fixed window until that ends, as
	// envoyproxy/ratelimit's local cache does: what is denied so is not counted. There is room for 65,536 keys at
	// least, and for one more for each 320 bytes above 20 MiB. A reset or refund by another replica goes unnoticed
	// until the window ends.
	FixedWindowBytes int64
	// Local is the store that counts in this process by descriptors.PolicyLocal; the guard closes it in the end. It has to
	// be there unless no check can have that policy.
	Local backend.Counter
	// Leases has the store grant hits of busy keys, which are then admitted here.
	Leases bool
	// Now, if not nil, replaces the monotonic clock, in tests, which call Settle.
	Now func() time.Time
}

// New makes a guard before a store, which it closes in the end.
func New(store backend.Store, c Config) *Guard {
	if c.Replicas == nil {
		c.Replicas = func() int { return 1 }
	}
	settles := c.Leases && c.Now == nil
	if c.Now == nil {
		c.Now = time.Now
	}
	g := &Guard{store: store, policy: cmp.Or(c.Policy, descriptors.PolicyError), now: c.Now, local: c.Local, replicas: c.Replicas}
	g.denied.init(c.FixedWindowBytes)
	g.leases.init(c.Leases, c.Replicas)
	g.calls.New = func() any { return new(call) }
	ctx, stop := context.WithCancel(context.Background())
	if g.stop = stop; settles {
		g.running.Go(func() { g.settleLeases(ctx) })
	}
	return g
}

// settleLeases settles leases that have ended until ctx ends.
func (g *Guard) settleLeases(ctx context.Context) {
	tick := time.NewTicker(settlePause)
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

// Settle settles the leases that have ended, which a guard by the monotonic clock does twice in backend.SettleTime.
func (g *Guard) Settle(ctx context.Context) {
	var running sync.WaitGroup
	g.leases.settleEnded(ctx, g.store, g.now(), false, &running)
	running.Wait()
}

// maxKey is how many bytes a key may have of which a guard knows denials or leases.
const maxKey = 1024

// call is one call of Decide. It is pooled, so that it allocates nothing.
type call struct {
	checks []backend.Check
	out    []backend.Decision
	began  time.Time

	plans   []plan       // of each check
	decided int          // checks, without the store
	refused bool         // a known denial refuses the whole request
	asking  bool         // the store is asked about leases
	part    backend.Part // the checks that the store is asked, if these are not all as they came

	settlements []settlement
}

// settlement is a check that settles a lease before another check of the call.
type settlement struct {
	before int
	check  backend.Check
}

// plan is how a check is decided.
type plan struct {
	decided bool          // without the store
	denial  denialPlace   // where its denial is kept
	lease   *pendingLease // that the store is asked for; nil: none
}

// Decide answers what this process knows, has the store decide the rest, and applies the failure policies to what the
// store gives no answer to. Only checks whose policy is error have an Err then.
//
// A count that a known denial covers is denied without the store. If such a denial refuses the whole request, the
// call's other counts are looked at and not counted, but for those that charge whatever the verdict. Other counts are
// admitted by leases, as far as these go.
func (g *Guard) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if len(out) < len(checks) {
		return backend.Validate(checks, out)
	}
	c := g.calls.Get().(*call)
	c.checks, c.out, c.began = checks, out, g.now()
	g.denyKnown(c)
	if g.leases.enabled && c.decided < len(checks) {
		g.lease(c)
	}
	var err error
	switch {
	case c.decided == 0 && !c.asking:
		err = g.store.Decide(ctx, checks, out)
	case c.decided < len(checks):
		err = g.askRest(ctx, c)
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

// denyKnown denies the checks of a call that are known to be denied.
func (g *Guard) denyKnown(c *call) {
	cacheable := 0
	refunds := false // what they give back, a count of the same call may need
	for i := range c.checks {
		refunds = refunds || c.checks[i].Op == backend.Refund
	}
	for i := range c.checks {
		var p plan
		p.denial, p.decided = g.denied.lookUp(&c.checks[i], c.began, &c.out[i])
		if p.decided = p.decided && !refunds; p.decided {
			c.decided++
			c.refused = c.refused || c.checks[i].Enforced
		}
		if p.denial.shard != nil {
			cacheable++
		}
		c.plans = append(c.plans, p)
	}
	g.hits.Add(uint64(c.decided))
	g.lookups.Add(uint64(cacheable))
}

// uncharged reports whether check i becomes a look, as its request is refused anyway.
func (c *call) uncharged(i int) bool {
	check := &c.checks[i]
	return c.refused && !c.plans[i].decided && check.Op == backend.Count && !check.ChargesAlways()
}

// lease decides by leases what it can of the checks that are not denied yet. A request that is refused anyway takes none
// of their hits.
func (g *Guard) lease(c *call) {
	for i := range c.checks {
		p := &c.plans[i]
		if p.decided || c.uncharged(i) {
			continue
		}
		if p.decided, p.lease = g.leases.decide(c, i); p.decided {
			c.decided++
		}
		c.asking = c.asking || p.lease != nil
	}
}

// settle has a lease settled before check i, and reports whether the call has room for that.
func (c *call) settle(i int, check backend.Check) bool {
	if len(c.checks)+len(c.settlements) >= backend.MaxChecks {
		return false
	}
	c.settlements, c.asking = append(c.settlements, settlement{i, check}), true
	return true
}

// askRest has the store decide the checks that are not decided yet as a part of the call, settlements before them.
func (g *Guard) askRest(ctx context.Context, c *call) error {
	settlements := c.settlements
	for i := range c.checks {
		for ; len(settlements) > 0 && settlements[0].before == i; settlements = settlements[1:] {
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
			g.leases.settled(check, cmp.Or(err, c.part.Out[i].Err), c.began)
		}
	}
	c.part.HandOver(c.out)
	c.part.Reset()
	for i := range c.checks {
		if d := &c.out[i]; err == nil && d.Err == nil && c.uncharged(i) {
			g.leases.addUnused(&c.checks[i], d, c.began)
			d.Source = backend.FromLook
			asCount(d, &c.checks[i])
		}
	}
	return err
}

// addTo adds check i to a part, as a look if it is not to be charged, and returns what it added.
func (c *call) addTo(part *backend.Part, i int) *backend.Check {
	check := part.Add(c.checks, i)
	if c.uncharged(i) {
		check.Op = backend.Look
	}
	return check
}

// asCount makes the answer to a look that of the count in whose place it was made. A look does not tell how long a count
// of several hits has to wait: at least until the first hit leaves.
func asCount(d *backend.Decision, check *backend.Check) {
	if !d.Allowed || check.Hits <= d.Remaining {
		return
	}
	d.Allowed, d.Remaining, d.RetryIn = false, 0, d.ResetIn
	if neverFits(check) {
		d.RetryIn = backend.Never
	}
}

// record keeps the denials that the store gave when it was asked, and the leases, and evicts what a refund may have
// changed; err is why the store answered nothing. It reports whether the store gave a check no answer.
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
			g.denied.evict(check.Key)
		case check.Op == backend.Look && g.leases.enabled:
			g.leases.addUnused(check, d, c.began)
		case !p.decided && !d.Allowed && d.Err == nil && d.Source == backend.FromStore:
			g.denied.remember(check, d, p.denial, c.began, g.now())
		}
	}
	return away
}

// neverFits reports whether a check asks for more hits than one of its limits ever admits at once.
func neverFits(c *backend.Check) bool {
	return slices.ContainsFunc(c.Limits, func(l descriptors.Limit) bool { return c.Hits > l.Capacity() })
}

// Inspect asks the store.
func (g *Guard) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	return g.store.Inspect(ctx, key, limits)
}

// Reset has the store forget a key, and drops its denials and leases.
func (g *Guard) Reset(ctx context.Context, key []byte) error {
	err := g.store.Reset(ctx, key)
	g.denied.evict(key)
	g.leases.reset(key)
	return err
}

// Close settles the leases, and closes the store, and what was counted in this process.
func (g *Guard) Close() error {
	g.stop()
	g.running.Wait()
	g.leases.settleEnded(context.Background(), g.store, g.now(), true, &g.running) // what is not settled leaves with its window
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

// Stats are totals since the start, but for DenyCacheKeys, which is now's.
type Stats struct {
	DenyCacheHits    uint64 // checks that were denied without the store, as it had denied them just before
	DenyCacheLookups uint64 // checks whose denial could have been known, the hits among them
	DenyCacheKeys    int

	Leases       uint64 // that the store granted
	LeaseGranted uint64 // their hits
	// Of LeaseGranted, once their leases are settled, the three add up to it:

	LeaseUsed     uint64 // hits that were admitted by leases
	LeaseReturned uint64 // unused hits that the store took out of the count
	LeaseLapsed   uint64 // unused hits that leave with their window
}

// Stats returns what the guard has answered itself.
func (g *Guard) Stats() Stats {
	return Stats{DenyCacheHits: g.hits.Load(), DenyCacheLookups: g.lookups.Load(), DenyCacheKeys: g.denied.keys(),
		Leases: g.leases.grants.Load(), LeaseGranted: g.leases.granted.Load(),
		LeaseUsed: g.leases.used.Load(), LeaseReturned: g.leases.returned.Load(), LeaseLapsed: g.leases.lapsed.Load()}
}

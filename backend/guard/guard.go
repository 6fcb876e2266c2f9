// Package guard stands before a store that may be away, and answers what it can without it: denials that this process
// knows already, hits that the store has leased to it, and, while the store gives no answer, whatever the failure policy
// of a check says. FAILURE.md tells an operator what that means, fault by fault.
package guard

import (
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

// Store is what a guard stands before.
type Store interface {
	backend.Counter
	backend.Inspector
}

// Guard is a backend.Counter that asks its store only where it has to. The zero Guard is not usable; make one with New.
type Guard struct {
	store    Store
	policy   descriptors.Policy
	denied   denyCache
	leases   leases
	local    backend.Counter // nil if no check has that policy
	replicas func() int
	now      func() time.Time
	calls    sync.Pool // of *call

	lookups, hits atomic.Uint64 // of the deny cache
}

var _ Store = (*Guard)(nil)

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
	// Now, if not nil, replaces the monotonic clock, in tests.
	Now func() time.Time
}

// New makes a guard before a store, which it closes in the end.
func New(store Store, c Config) *Guard {
	if c.Policy == descriptors.PolicyDefault {
		c.Policy = descriptors.PolicyError
	}
	if c.Replicas == nil {
		c.Replicas = func() int { return 1 }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	g := &Guard{store: store, policy: c.Policy, now: c.Now, local: c.Local, replicas: c.Replicas}
	g.denied.init(c.FixedWindowBytes)
	g.leases.init(c.Leases, c.Replicas)
	g.calls.New = func() any { return new(call) }
	return g
}

// call is one call of Decide. It is pooled, so that it allocates nothing.
type call struct {
	plans []plan       // of each check
	part  backend.Part // the checks that the store is asked, if these are not all as they came
}

// Decide answers what this process knows, has the store decide the rest, and applies the failure policies to what the
// store gives no answer to. Only checks whose policy is error have an Err then.
//
// A count that a known denial covers is denied without the store. If such a denial refuses the whole request, the
// call's other counts are looked at and not counted, but for those that charge whatever the verdict. Other counts are
// admitted by leases, as far as these go.
func (g *Guard) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if len(out) < len(checks) {
		return backend.Valid(checks, out)
	}
	now := g.now()
	c := g.calls.Get().(*call)
	decided, refused := g.denyKnown(c, checks, out, now)
	leased, asking := 0, false
	if g.leases.on && decided < len(checks) {
		leased, asking = g.lease(c, checks, out, refused, now)
	}
	var err error
	switch decided += leased; {
	case decided == 0 && !asking:
		err = g.store.Decide(ctx, checks, out)
	case decided < len(checks):
		err = g.askRest(ctx, c, checks, out, refused, now)
	}
	if g.leases.on && decided < len(checks) {
		g.learnLeases(c, checks, out, err, now)
	}
	if err == nil && g.learn(c, checks, out, now) {
		g.degrade(ctx, c, checks, out)
	}
	clear(c.plans)
	c.plans = c.plans[:0]
	g.calls.Put(c)
	return err
}

// denyKnown denies the checks of a call that are known to be denied, and reports how many, and whether one of them
// refuses the whole request.
func (g *Guard) denyKnown(c *call, checks []backend.Check, out []backend.Decision, now time.Time) (decided int, refused bool) {
	cacheable := 0
	refunds := false // what they give back, a count of the same call may need
	for i := range checks {
		refunds = refunds || checks[i].Op == backend.Refund
	}
	for i := range checks {
		p := g.denied.lookUp(&checks[i], now, &out[i])
		if p.decided = p.decided && !refunds; p.decided {
			decided++
			refused = refused || checks[i].Enforced
		}
		if p.shard != nil {
			cacheable++
		}
		c.plans = append(c.plans, p)
	}
	g.hits.Add(uint64(decided))
	g.lookups.Add(uint64(cacheable))
	return decided, refused
}

// lease decides by leases what it can of the checks that are not denied yet, and reports how many these are, and
// whether the store is to be asked about leases. A request that is refused anyway takes nothing.
func (g *Guard) lease(c *call, checks []backend.Check, out []backend.Decision, refused bool, now time.Time) (leased int, asking bool) {
	for i := range checks {
		p := &c.plans[i]
		if p.decided || refused && checks[i].Op == backend.Count && !checks[i].ChargesAlways() {
			continue
		}
		if p.decided, p.lease = g.leases.ask(&checks[i], now, &out[i]); p.decided {
			leased++
		}
		asking = asking || p.lease != nil
	}
	return leased, asking
}

// learnLeases brings what the store has answered about leases to where they are kept; err is why it answered nothing.
func (g *Guard) learnLeases(c *call, checks []backend.Check, out []backend.Decision, err error, sent time.Time) {
	for i := range checks {
		q, d := c.plans[i].lease, &out[i]
		if err != nil {
			d = &backend.Decision{Err: err}
		}
		if q != nil {
			g.leases.answered(&checks[i], d, q, sent)
		} else if checks[i].Op == backend.Look {
			g.leases.beside(&checks[i], d, sent)
		}
	}
}

// askRest has the store decide the checks that are not decided yet. If the request is refused anyway, counts become
// looks.
func (g *Guard) askRest(ctx context.Context, c *call, checks []backend.Check, out []backend.Decision, refused bool, now time.Time) error {
	for i := range checks {
		p := &c.plans[i]
		if p.decided {
			continue
		}
		p.look = refused && checks[i].Op == backend.Count && !checks[i].ChargesAlways()
		c.add(&c.part, checks, i)
		c.part.Checks[len(c.part.Checks)-1].Lease = p.lease
	}
	err := g.store.Decide(ctx, c.part.Checks, c.part.Out)
	c.part.HandOver(out)
	c.part.Reset()
	for i := range checks {
		if d := &out[i]; c.plans[i].look && err == nil && d.Err == nil {
			g.leases.beside(&checks[i], d, now)
			d.Source = backend.FromLook
			asCount(d, &checks[i])
		}
	}
	return err
}

// add adds a check to a part, as a look if it is to be one.
func (c *call) add(to *backend.Part, checks []backend.Check, i int) {
	to.Add(checks, i)
	if c.plans[i].look {
		to.Checks[len(to.Checks)-1].Op = backend.Look
	}
}

// asCount makes the answer to a look that of the count that it stands for. How long a count of several hits has to wait
// the look does not tell: until the first hit leaves, at least.
func asCount(d *backend.Decision, check *backend.Check) {
	if !d.Allowed || check.Hits <= d.Remaining {
		return
	}
	d.Allowed, d.Remaining, d.RetryIn = false, 0, d.ResetIn
	if neverFits(check) {
		d.RetryIn = backend.Never
	}
}

// learn remembers the denials that the store gave when it was asked, and forgets what a refund may have changed. It
// reports whether the store gave a check no answer.
func (g *Guard) learn(c *call, checks []backend.Check, out []backend.Decision, asked time.Time) (away bool) {
	for i := range checks {
		check, d := &checks[i], &out[i]
		away = away || d.Err != nil
		switch {
		case check.Op == backend.Refund:
			g.denied.forget(check.Key)
		case !c.plans[i].decided && !d.Allowed && d.Err == nil && d.Source == backend.FromStore:
			g.denied.remember(check, d, &c.plans[i], asked, g.now())
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

// Reset has the store forget a key, and forgets that it was denied, and what was leased.
func (g *Guard) Reset(ctx context.Context, key []byte) error {
	err := g.store.Reset(ctx, key)
	g.denied.forget(key)
	g.leases.forget(key)
	return err
}

// Close settles the leases, and closes the store, and what was counted in this process.
func (g *Guard) Close() error {
	g.leases.close(g.store, g.now())
	err := g.store.Close()
	if g.local != nil {
		err = errors.Join(err, g.local.Close())
	}
	if err != nil {
		return fmt.Errorf("closing the counters: %w", err)
	}
	return nil
}

// Stats are totals since the start, but for Keys.
type Stats struct {
	DenyCacheHits    uint64 // checks that were denied without the store, as it had denied them just before
	DenyCacheLookups uint64 // checks whose denial could have been known, the hits among them
	Keys             int    // in the deny cache

	Leases        uint64 // that the store granted
	LeaseGranted  uint64 // their hits
	LeaseUsed     uint64 // hits that were admitted by leases
	LeaseReturned uint64 // unused hits that the store took out of the count
	LeaseLeft     uint64 // unused hits that leave with their window
}

// Stats returns what the guard has answered itself.
func (g *Guard) Stats() Stats {
	return Stats{DenyCacheHits: g.hits.Load(), DenyCacheLookups: g.lookups.Load(), Keys: g.denied.keys(),
		Leases: g.leases.grants.Load(), LeaseGranted: g.leases.granted.Load(),
		LeaseUsed: g.leases.used.Load(), LeaseReturned: g.leases.returned.Load(), LeaseLeft: g.leases.left.Load()}
}

package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// retryAway is when a check that the policy deny refused may be asked again: a store that is back is noticed within a
// second.
const retryAway = time.Second

// degrade decides by its policy each check that the store gave no answer to.
func (g *Guard) degrade(ctx context.Context, c *call) {
	var here *backend.Part // checks that are counted in this process
	for i := range c.checks {
		check, d := &c.checks[i], &c.out[i]
		if d.Err == nil {
			continue
		}
		reason, policy := backend.ReasonOf(d.Err), cmp.Or(check.OnFailure, g.policy)
		switch policy {
		case descriptors.PolicyAllow:
			*d = allow(check)
		case descriptors.PolicyDeny:
			*d = deny(check)
		case descriptors.PolicyLocal:
			if here == nil {
				here = new(backend.Part)
			}
			c.addTo(here, i)
		}
		d.Reason, d.Policy = reason, policy
	}
	if here != nil {
		g.countHere(ctx, c, here)
	}
}

// countHere decides a part of the checks in this process, each limit divided by the replicas that do the same. What it
// has counted stays through a short return of the store, for as long as it counts: a store that comes and goes buys
// nobody a fresh count each time.
func (g *Guard) countHere(ctx context.Context, c *call, here *backend.Part) {
	replicas := uint64(max(1, g.replicas()))
	for i := range here.Checks {
		here.Checks[i].Limits = shares(here.Checks[i].Limits, replicas)
	}
	err := g.local.Decide(ctx, here.Checks, here.Out)
	here.Each(func(i int, d *backend.Decision) {
		switch d.Source = backend.FromLocal; {
		case err != nil:
			*d = backend.Decision{Err: fmt.Errorf("counting in this process while the store is away: %w", err)}
		case c.uncharged(i):
			asCount(d, &c.checks[i])
		}
		d.Reason, d.Policy = c.out[i].Reason, c.out[i].Policy
	})
	here.HandOver(c.out)
}

// shares returns limits of which each of some replicas may admit its share: rounded down, but at least one hit, where
// the limit admits any.
func shares(limits []descriptors.Limit, replicas uint64) []descriptors.Limit {
	all := slices.Clone(limits)
	for i := range all {
		for _, n := range []*uint64{&all[i].Requests, &all[i].Burst} {
			if *n > 0 {
				*n = max(1, *n/replicas)
			}
		}
	}
	return all
}

// allow lets a check pass as if nothing counted yet, unless a limit blocks everything, for which nobody needs a store.
// What it speaks of is the limit with the least room.
func allow(c *backend.Check) backend.Decision {
	d := backend.Decision{Source: backend.FromPolicy}
	room := c.Limits[0].Capacity()
	for i := range c.Limits {
		if n := c.Limits[i].Capacity(); n < room {
			d.Strictest, room = i, n
		}
	}
	if room == 0 && c.Op != backend.Refund {
		d.ResetIn, d.RetryIn = c.Limits[d.Strictest].Window, backend.Never
		return d
	}
	d.Allowed, d.Remaining = true, room
	if c.Op == backend.Count {
		d.Remaining -= min(room, c.Hits)
	}
	return d
}

// deny refuses a check. Hits that are given back are never refused.
func deny(c *backend.Check) backend.Decision {
	if c.Op == backend.Refund {
		return allow(c)
	}
	return backend.Decision{Source: backend.FromPolicy, ResetIn: retryAway, RetryIn: retryAway}
}

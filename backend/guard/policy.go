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

// denyRetryIn is the RetryIn of a check that the policy deny refused: the guard notices a store's return within a second.
const denyRetryIn = time.Second

// degrade decides each check without an answer by its failure policy.
func (g *Guard) degrade(ctx context.Context, c *call) {
	var local *backend.Subset // the checks of PolicyLocal
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
			if local == nil {
				local = new(backend.Subset)
			}
			c.addTo(local, i)
		}
		d.Reason, d.Policy = reason, policy
	}
	if local != nil {
		g.decideLocally(ctx, c, local)
	}
}

// decideLocally decides checks in this process, with each limit divided by the number of replicas. Local counts outlast
// a short return of the store, so that a flapping store does not reset them.
func (g *Guard) decideLocally(ctx context.Context, c *call, local *backend.Subset) {
	replicas := uint64(max(1, g.replicas()))
	for i := range local.Checks {
		local.Checks[i].Limits = divideLimits(local.Checks[i].Limits, replicas)
	}
	err := g.local.Decide(ctx, local.Checks, local.Out)
	local.Each(func(i int, d *backend.Decision) {
		switch d.Source = backend.FromLocal; {
		case err != nil:
			*d = backend.Decision{Err: fmt.Errorf("counting in this process while the store is away: %w", err)}
		case c.uncharged(i):
			lookToCount(d, &c.checks[i])
		}
		d.Reason, d.Policy = c.out[i].Reason, c.out[i].Policy
	})
	local.CopyTo(c.out)
}

// divideLimits returns one replica's share of each limit: rounded down, but at least one hit if the limit admits any.
func divideLimits(limits []descriptors.Limit, replicas uint64) []descriptors.Limit {
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

// allow admits a check as if nothing was counted yet, unless a limit of 0 blocks everything. The answer is about the
// smallest limit.
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

// deny refuses a check, unless it is a refund.
func deny(c *backend.Check) backend.Decision {
	if c.Op == backend.Refund {
		return allow(c)
	}
	return backend.Decision{Source: backend.FromPolicy, ResetIn: denyRetryIn, RetryIn: denyRetryIn}
}

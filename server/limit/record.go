package limit

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
)

// record puts the decision on check i into the verdict, and records what became of its hits.
func (l *Limiter) record(c *Call, i int) {
	p, d, check := &c.pending[i], &c.decisions[i], &c.checks[i]
	s := &c.Statuses[p.descriptor]
	degraded := d.Err != nil || d.Source.Degraded()
	if check.Op == backend.Refund {
		p.tally.GiveBack(check.Hits)
	} else {
		p.tally.Ask(check.Hits)
	}
	if degraded {
		c.Degraded = true
		s.Policy, s.Reason = cmp.Or(d.Policy, descriptors.PolicyError), d.Reason
		l.Degraded.Count(c.Domain, s.rule, s.Policy, s.Reason)
		p.hits.Degrade(check.Hits)
	}
	if d.Err != nil {
		return
	}
	s.Limit = &check.Limits[d.Strictest]
	s.Over, s.Remaining, s.ResetIn = false, d.Remaining, d.ResetIn // a look may have found it over
	switch {
	case p.shadow: // it refuses nothing, and makes nobody wait
		if !d.Allowed {
			s.Shadow, s.RetryIn, c.ShadowOver = true, d.RetryIn, true
		}
	case d.Allowed:
		s.FullFor = d.NextIn
	default:
		s.Over, s.RetryIn = true, d.RetryIn
	}
	if !degraded {
		p.hits.Record(hits.Verdict{
			Requests: s.Limit.Capacity(), Before: d.Before, Hits: check.Hits, NearRatio: l.options.NearRatio, Allowed: d.Allowed,
			Always: check.Charge.Always(s.Limit), Remembered: d.Source == backend.FromDenyCache,
			Shadow: p.shadow, ShadowAll: l.options.Shadow,
		})
	}
}

// Refunds counts what was given back to descriptors of refused requests.
type Refunds struct {
	Done, Failed atomic.Uint64 // checks
}

// giveBack refunds what a refused request has charged to those of its descriptors that are not over. It does so once,
// within the request's deadline; what that does not reach stays charged, and is counted. Hits that the descriptor or the
// rule charges whatever the verdict are a cost that is there: they stay.
func (l *Limiter) giveBack(ctx context.Context, c *Call) {
	c.round.Reset()
	for i := range c.checks {
		check, d := &c.checks[i], &c.decisions[i]
		charged := check.Op == backend.Count && d.Allowed && d.Source == backend.FromStore && !c.pending[i].spared
		if charged && check.Charge != descriptors.ChargeAlways {
			c.round.Add(c.checks, i)
			c.round.Checks[len(c.round.Checks)-1].Op = backend.Refund
			c.round.Checks[len(c.round.Checks)-1].OnFailure = descriptors.PolicyError
		}
	}
	if len(c.round.Checks) == 0 {
		return
	}
	l.ask(ctx, c.round.Checks, c.round.Out)
	for i := range c.round.Out {
		if c.round.Out[i].Err != nil {
			l.Refunds.Failed.Add(1)
		} else {
			l.Refunds.Done.Add(1)
		}
	}
	c.round.Each(func(check int, d *backend.Decision) {
		if s := &c.Statuses[c.pending[check].descriptor]; d.Err == nil {
			s.Limit = &c.checks[check].Limits[d.Strictest]
			s.Remaining, s.ResetIn, s.FullFor = d.Remaining, d.ResetIn, 0
		}
	})
}

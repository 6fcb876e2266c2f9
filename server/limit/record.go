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
	if degraded := d.Err != nil || d.Source.Degraded(); degraded {
		s.Policy, s.Reason = cmp.Or(d.Policy, descriptors.PolicyError), d.Reason
		c.Degraded = true
		p.hits.Degrade(check.Hits)
		l.Degraded.Count(c.Domain, s.rule, s.Policy, s.Reason)
	}
	if d.Err != nil {
		return
	}
	s.Limit = &check.Limits[d.Strictest]
	s.Over, s.Remaining, s.ResetIn = false, d.Remaining, d.ResetIn // a look may have found it over
	if d.Allowed {
		if !p.shadow { // which makes nobody wait
			s.FullFor = d.NextIn
		}
		l.recordAllowed(p.hits, s.Limit, d, check)
		return
	}
	l.recordDenied(p, s.Limit, d, check)
	if !p.shadow {
		s.Over, s.RetryIn = true, d.RetryIn
	}
}

func (l *Limiter) recordAllowed(to *hits.Counter, limit *descriptors.Limit, d *backend.Decision, check *backend.Check) {
	if !d.Source.Degraded() {
		to.Admit(check.Hits, hits.Near(limit.Capacity(), d.Before, check.Hits, l.options.NearRatio))
	}
}

func (l *Limiter) recordDenied(p *pending, limit *descriptors.Limit, d *backend.Decision, check *backend.Check) {
	if d.Source.Degraded() {
		return
	}
	fitted := uint64(0)
	if check.Charge.Always(limit) { // what a denied charge took of the room that was left was within
		fitted = min(check.Hits, limit.Capacity()-min(limit.Capacity(), d.Before))
		p.hits.Admit(fitted, hits.Near(limit.Capacity(), d.Before, fitted, l.options.NearRatio))
	}
	p.hits.Deny(check.Hits-fitted, p.shadow || l.options.Shadow)
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

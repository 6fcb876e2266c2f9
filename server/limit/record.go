package limit

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/hits"
)

// record puts the decision on check i into the verdict.
func (l *Limiter) record(c *Call, i int) {
	p, d, check := &c.pending[i], &c.decisions[i], &c.checks[i]
	s := &c.Statuses[p.descriptor]
	if d.Err != nil {
		d.Policy = cmp.Or(d.Policy, descriptors.PolicyError)
	}
	if d.Err != nil || d.Source.Degraded() {
		c.Degraded = true
		l.degraded[d.Reason][d.Policy].Add(1)
	}
	s.Decision = *d
	if d.Err != nil {
		return
	}
	s.Limit = &check.Limits[d.Strictest]
	s.Over = !d.Allowed && !p.shadow // a look may have found it over
	if p.shadow {
		s.Shadow, s.NextIn = !d.Allowed, 0
		c.ShadowOver = c.ShadowOver || s.Shadow
	}
}

// count counts the hits of each check by what became of them. A quota that is over refuses only if the request is refused.
func (l *Limiter) count(c *Call) {
	for i := range c.checks {
		p := &c.pending[i]
		if p.hits == nil {
			continue
		}
		s := &c.Statuses[p.descriptor]
		p.hits.Record(&hits.Event{Rule: s.Rule, Descriptor: c.Descriptors[p.descriptor].Entries, Override: s.Override,
			Key: p.key, At: c.At, Check: &c.checks[i], Decision: &c.decisions[i]},
			hits.Modes{NearRatio: l.options.NearRatio, Shadow: p.shadow, Passes: l.options.Shadow || s.Quota && !c.Over})
	}
}

// keepDenials keeps, of a request that is refused, each check that refuses it, and of any request each that would, were
// it not for shadow mode.
func (c *Call) keepDenials() {
	for i := range c.checks {
		descriptor := &c.Descriptors[c.pending[i].descriptor]
		s := &c.Statuses[c.pending[i].descriptor]
		if s.Err != nil || !s.Shadow && !(s.Over && (c.Over || c.Shadowed)) {
			continue
		}
		c.rules.denials.Note(s.Rule, c.Domain, s.Shadow || c.Shadowed, &denials.Denial{
			At: c.At, Limit: *s.Limit, Override: s.Override, Quota: s.Quota, Hits: c.checks[i].Hits, Count: s.Before,
			RetryIn: s.RetryIn, Source: s.Source,
		}, descriptor.Entries)
	}
}

// Refunds counts what was given back to descriptors of refused requests.
type Refunds struct {
	Done, Failed atomic.Uint64 // checks
}

// refund gives back what a refused request has charged to its descriptors that are not over, but what is charged
// whatever the verdict only with Options.RefundOthers. It tries once, within the request's deadline, and counts failures.
func (l *Limiter) refund(ctx context.Context, c *Call) {
	c.refunds.Reset()
	for i := range c.checks {
		check, d := &c.checks[i], &c.decisions[i]
		charged := check.Op == backend.Count && d.Allowed && (d.Source == backend.FromStore || d.Source == backend.FromLease)
		if charged && (l.options.RefundOthers || check.Charge != descriptors.ChargeAlways) {
			refund := c.refunds.Add(c.checks, i)
			refund.Op, refund.OnFailure = backend.Refund, descriptors.PolicyError
		}
	}
	if len(c.refunds.Checks) == 0 {
		return
	}
	l.ask(ctx, c.refunds.Checks, c.refunds.Out)
	c.refunds.Each(func(check int, d *backend.Decision) {
		if d.Err != nil {
			l.Refunds.Failed.Add(1)
			return
		}
		l.Refunds.Done.Add(1)
		s := &c.Statuses[c.pending[check].descriptor]
		s.Decision, s.Limit = *d, &c.checks[check].Limits[d.Strictest]
	})
}

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

// setStatus copies the decision on check i to the verdict.
func (l *Limiter) setStatus(c *Call, i int) {
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
	if p.shadow {
		s.NextIn = 0
	}
	switch { // a look, too, may be over
	case d.Allowed:
		s.Outcome = Within
	case p.shadow:
		s.Outcome = ShadowOver
	default:
		s.Outcome = Over
	}
}

// record counts the hits of each check by outcome, and records denials: those that refuse the request, and those that
// would without shadow mode.
func (l *Limiter) record(c *Call) {
	refused := c.Result != OK
	for i := range c.checks {
		p := &c.pending[i]
		s, check, d := &c.Statuses[p.descriptor], &c.checks[i], &c.decisions[i]
		entries := c.Descriptors[p.descriptor].Entries
		if p.recorded { // a quota that is over refuses only with all others
			c.rules.hits.At(p.index).Record(
				&hits.Event{Rule: s.Rule, Descriptor: entries, Override: s.Override, Key: p.key, At: c.At, Check: check, Decision: d},
				hits.Modes{NearRatio: l.options.NearRatio, Shadow: p.shadow, Passing: l.options.Shadow || s.Quota && c.Result != OverLimit})
		}
		if s.Outcome == ShadowOver || s.Outcome == Over && refused {
			denial := denials.FromCheck(c.At, check, d)
			denial.Override, denial.Quota = s.Override, s.Quota
			c.rules.denials.Record(p.index, s.Outcome == ShadowOver || c.Result == Shadowed, &denial, entries)
		}
	}
}

// Refunds counts refunds to descriptors of refused requests.
type Refunds struct {
	Done, Failed atomic.Uint64 // checks
}

// refund gives back the hits that a refused request charged to descriptors that are not over. It gives back hits of
// rules that charge always only with Options.RefundOthers. It tries once, within the request's deadline, and counts
// failures.
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
	l.decideChecks(ctx, c.refunds.Checks, c.refunds.Out)
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

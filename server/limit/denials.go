package limit

import (
	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/denials"
)

// noteDenials keeps, of a request that is refused, each check that refuses it, and of any request each that would, were
// it not for shadow mode. A quota that is over refuses only if the request is refused.
func (c *Call) noteDenials() {
	for i := range c.checks {
		p, check, d := &c.pending[i], &c.checks[i], &c.decisions[i]
		s := &c.Statuses[p.descriptor]
		if d.Err != nil || !s.Shadow && !(s.Over && (c.Over || c.Shadowed)) {
			continue
		}
		of := &c.Descriptors[p.descriptor]
		c.rules.denials.Note(s.rule, c.Domain, s.Shadow || c.Shadowed, &denials.Denial{
			At: c.At, Limit: *s.Limit, Override: p.override, Quota: s.Quota, Hits: asked(check), Count: d.Before,
			RetryIn: d.RetryIn, By: deciders[d.Source],
		}, of.Entries)
	}
}

// asked returns how many hits a check asks for.
func asked(check *backend.Check) uint64 {
	if check.Op == backend.Look {
		return 0
	}
	return check.Hits
}

// deciders are who decides, by the source of a decision.
var deciders = [...]denials.Decider{
	backend.FromStore: denials.ByStore, backend.FromDenyCache: denials.ByDenyCache, backend.FromLook: denials.ByLook,
	backend.FromLocal: denials.ByLocal, backend.FromPolicy: denials.ByPolicy,
}

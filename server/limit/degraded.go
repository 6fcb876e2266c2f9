package limit

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxDegraded is how many kinds of degraded decisions are told apart: enough for each rule of a large configuration,
// and a bound where configurations come and go. Decisions of further kinds are counted by reason and policy alone.
const maxDegraded = 10_000

// Degraded counts decisions that were made while no store decides, by rule, reason and policy, and by the last two alone.
// The zero value is ready. Its methods may be called by any number of goroutines.
type Degraded struct {
	totals sync.Map // of degradedKind: *atomic.Uint64
	size   atomic.Int64
	all    [backend.Reasons][descriptors.Policies]atomic.Uint64
}

type degradedKind struct {
	domain, path string
	policy       descriptors.Policy
	reason       backend.Reason
}

// Count counts a decision about a rule of a domain, nil for what no rule matches.
func (g *Degraded) Count(domain string, rule *descriptors.Rule, p descriptors.Policy, r backend.Reason) {
	if int(r) < backend.Reasons && int(p) < descriptors.Policies {
		g.all[r][p].Add(1)
	}
	kind := degradedKind{domain, history.Unmatched, p, r}
	if rule != nil {
		kind.domain, kind.path = rule.Domain, rule.Path
	}
	total, found := g.totals.Load(kind)
	if !found {
		total = g.add(kind)
	}
	total.(*atomic.Uint64).Add(1)
}

// add counts a kind from now on. A domain's name may be part of the request, which it must not keep.
func (g *Degraded) add(kind degradedKind) any {
	if g.size.Load() >= maxDegraded {
		kind.domain, kind.path = history.OtherValue, history.OtherValue
	}
	kind.domain = strings.Clone(kind.domain)
	total, known := g.totals.LoadOrStore(kind, new(atomic.Uint64))
	if !known {
		g.size.Add(1)
	}
	return total
}

// DegradedTotal is how many decisions of one kind there were since the start.
type DegradedTotal struct {
	Domain, Path string
	Policy       descriptors.Policy
	Reason       backend.Reason
	Decisions    uint64
}

// Totals returns the total of each kind that there was, in order.
func (g *Degraded) Totals() []DegradedTotal {
	var all []DegradedTotal
	for kind, total := range g.totals.Range {
		k := kind.(degradedKind)
		all = append(all, DegradedTotal{k.domain, k.path, k.policy, k.reason, total.(*atomic.Uint64).Load()})
	}
	slices.SortFunc(all, func(a, b DegradedTotal) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Policy, b.Policy),
			cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// ByPolicy returns how many decisions each policy has made since the start, for all reasons together.
func (g *Degraded) ByPolicy() (sums [descriptors.Policies]uint64) {
	for r := range g.all {
		for p := range sums {
			sums[p] += g.all[r][p].Load()
		}
	}
	return sums
}

// Total returns how many decisions there were since the start for a reason and by a policy, of all rules.
func (g *Degraded) Total(r backend.Reason, p descriptors.Policy) uint64 { return g.all[r][p].Load() }

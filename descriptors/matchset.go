package descriptors

import (
	"cmp"
	"slices"
)

// maxArrangements bounds the steps that MatchSet takes through the rules: what is beyond is not found.
const maxArrangements = 1000

// MatchSet is [Config.Match] for entries that have no order, each key once, as those of an Envoy quota bucket. It returns
// them in the order of the rule that they reach, of several the first in its file; else by their keys.
func (c *Config) MatchSet(domain string, set Descriptor) (Descriptor, Match) {
	ordered := slices.SortedFunc(slices.Values(set), func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	if configured := c.domains[domain]; configured != nil {
		a := orderSearch{left: maxArrangements}
		a.walk(&configured.Root, slices.Clone(ordered), 0)
		if a.best != nil {
			ordered = a.order
		}
	}
	return ordered, c.Match(domain, ordered)
}

// orderSearch searches for an order of entries that reaches a rule.
type orderSearch struct {
	best  *Rule
	order Descriptor
	left  int // steps
}

// walk tries each entry from index i on as the next one below n.
func (a *orderSearch) walk(n *Node, d Descriptor, i int) {
	if i == len(d) {
		if n.Rule != nil && (a.best == nil || n.Rule.Number < a.best.Number) {
			a.best, a.order = n.Rule, slices.Clone(d)
		}
		return
	}
	for j := i; j < len(d) && a.left > 0; j++ {
		a.left--
		if next := n.child(&d[j]); next != nil {
			d[i], d[j] = d[j], d[i]
			a.walk(next, d, i+1)
			d[i], d[j] = d[j], d[i]
		}
	}
}

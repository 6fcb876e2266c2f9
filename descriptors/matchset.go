package descriptors

import (
	"cmp"
	"slices"
)

// maxSearchSteps bounds the steps of MatchSet through the rules. It does not find rules that need more.
const maxSearchSteps = 1000

// MatchSet is [Config.Match] for entries without an order, with distinct keys, such as those of an Envoy quota bucket.
// It returns the entries in the order of the rule that they match, the first one in its file if there are several; if
// there is none, sorted by key.
func (c *Config) MatchSet(domain string, set Descriptor) (Descriptor, Match) {
	ordered := slices.SortedFunc(slices.Values(set), func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) })
	if configured := c.domains[domain]; configured != nil {
		a := orderSearch{stepsLeft: maxSearchSteps}
		a.walk(&configured.Root, slices.Clone(ordered), 0)
		if a.best != nil {
			ordered = a.order
		}
	}
	return ordered, c.Match(domain, ordered)
}

// orderSearch searches for an order of entries that matches a rule.
type orderSearch struct {
	best      *Rule
	order     Descriptor
	stepsLeft int
}

// walk tries each entry from index i on as the next one below n.
func (a *orderSearch) walk(n *Node, d Descriptor, i int) {
	if i == len(d) {
		if n.Rule != nil && (a.best == nil || n.Rule.Number < a.best.Number) {
			a.best, a.order = n.Rule, slices.Clone(d)
		}
		return
	}
	for j := i; j < len(d) && a.stepsLeft > 0; j++ {
		a.stepsLeft--
		if next := n.child(&d[j]); next != nil {
			d[i], d[j] = d[j], d[i]
			a.walk(next, d, i+1)
			d[i], d[j] = d[j], d[i]
		}
	}
}

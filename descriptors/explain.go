package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// exactly is why a child was chosen whose key and value are those of the entry.
const exactly = "exact"

// spelledNearly is why a child was not chosen whose key looks like a slip of the entry's.
const spelledNearly = "another key, spelled nearly so"

// Explanation is the account of how [Config.Match] treats a descriptor.
type Explanation struct {
	Domain      string
	DomainWhere string // file:line; "" for an unknown domain
	Descriptor  Descriptor
	Steps       []Step // one for each entry, up to the one that no child fits
	Match       Match  // what Config.Match answers
	Reason      string // a sentence: why this rule, or why none
}

// Step is what happened to one entry of the descriptor.
type Step struct {
	Entry  Entry
	Chosen *Child  // nil if no child fits
	Others []Child // those that fit but were passed over, then those that come nearest
	More   int     // children that are not listed
}

// Child is one configured descriptor of a level.
type Child struct {
	Entry        // the value is "" if the descriptor has none
	Where string // file:line
	Fits  bool
	Why   string // why it was chosen, or why not
}

// String returns the entry as people write it: user=ann.
func (e Entry) String() string { return e.Key + "=" + e.Value }

// String returns the child as a file has it: user=ann, or user alone.
func (c Child) String() string {
	if c.Value == "" {
		return c.Key
	}
	return c.Key + "=" + c.Value
}

// Explain returns how a descriptor is matched, level by level, and why it ends on a rule or on none.
func (c *Config) Explain(domain string, d Descriptor) Explanation {
	x := Explanation{Domain: domain, Descriptor: d, Match: c.Match(domain, d)}
	configured := c.domains[domain]
	if configured == nil {
		x.Reason = Printable(c.unknownDomain(domain))
		return x
	}
	x.DomainWhere = configured.where
	n := &configured.root
	for _, e := range d {
		next := n.step(&e)
		x.Steps = append(x.Steps, n.explain(e, next))
		if next == nil {
			x.Reason = Printable(x.noChild(n, e))
			return x
		}
		n = next
	}
	x.Reason = Printable(x.ended(n))
	return x
}

func (c *Config) unknownDomain(domain string) string {
	if c.Broken(domain) {
		return fmt.Sprintf("The files of domain %s have errors and never were good: its requests are answered UNAVAILABLE.",
			Shown(domain))
	}
	if len(c.domains) == 0 {
		return "No domain is configured at all."
	}
	names := c.DomainNames()
	if meant := Nearest(domain, slices.Concat(names, c.broken)); meant != "" {
		return fmt.Sprintf("No file configures domain %s. Did you mean %s?", Shown(domain), Shown(meant))
	}
	return fmt.Sprintf("No file configures domain %s. The configured ones are %s.", Shown(domain), Listed(names))
}

// noChild returns why entry e cannot go on from n.
func (x *Explanation) noChild(n *Node, e Entry) string {
	entry := Shown(e.String())
	if len(x.Steps) == 1 {
		return fmt.Sprintf("No rule applies: nothing in domain %s fits %s.", Shown(x.Domain), entry) + x.outOfOrder(n)
	}
	last := x.Steps[len(x.Steps)-2].Chosen
	reason := fmt.Sprintf("No rule applies: below %s (%s) nothing fits %s.", Shown(last.String()), last.Where, entry)
	if n.children() == 0 {
		reason = fmt.Sprintf("No rule applies: %s (%s) has no descriptors below it, so nothing can fit %s.",
			Shown(last.String()), last.Where, entry)
	}
	if n.rule != nil {
		reason += " Its own limit applies only to descriptors that end there."
	}
	return reason + x.passedOver() + x.outOfOrder(n)
}

// outOfOrder names a later entry that would have gone on from n, where none fitted.
func (x *Explanation) outOfOrder(n *Node) string {
	for _, later := range x.Descriptor[len(x.Steps):] {
		if n.step(&later) != nil {
			return fmt.Sprintf(" %s would fit there, but comes later: the order of entries counts.", Shown(later.String()))
		}
	}
	return ""
}

// passedOver names children that would have fitted an earlier entry: matching never goes back to them.
func (x *Explanation) passedOver() string {
	for _, s := range x.Steps[:len(x.Steps)-1] {
		for _, o := range s.Others {
			if o.Fits {
				return fmt.Sprintf(" %s (%s) was passed over before, and matching does not go back.",
					Shown(o.String()), o.Where)
			}
		}
	}
	return ""
}

// ended returns what it means that the descriptor ends on n.
func (x *Explanation) ended(n *Node) string {
	if len(x.Steps) == 0 {
		return "No rule applies: the descriptor has no entries."
	}
	last := x.Steps[len(x.Steps)-1].Chosen
	switch {
	case n.rule != nil:
		return fmt.Sprintf("Rule %s (%s) applies.", Shown(ReadablePath(n.rule.Path)), n.rule.Where)
	case n.children() > 0:
		return fmt.Sprintf("No rule applies: the descriptor ends on %s (%s), which has no limit of its own, only below it.",
			Shown(last.String()), last.Where)
	}
	return fmt.Sprintf("No rule applies: %s (%s) has no limit, so it lets through what it matches.",
		Shown(last.String()), last.Where)
}

// explain lists n's children as entry e sees them; next is the one that it leads to.
func (n *Node) explain(e Entry, next *Node) Step {
	s := Step{Entry: e}
	others := make([]Child, 0, n.children())
	for id, child := range n.Children() {
		c := Child{Entry: id, Where: child.where}
		if child == next {
			c.Fits, c.Why = true, how(c, e)
			s.Chosen = &c
		} else {
			others = append(others, c)
		}
	}
	for i := range others {
		others[i].compare(e, s.Chosen)
	}
	slices.SortFunc(others, func(a, b Child) int {
		return cmp.Or(cmp.Compare(a.rank(e), b.rank(e)), compareWhere(a.Where, b.Where),
			cmp.Compare(a.String(), b.String()))
	})
	s.Others = others[:min(len(others), maxListed)]
	s.More = len(others) - len(s.Others)
	return s
}

// how returns by which step of the order entry e was led to child c.
func how(c Child, e Entry) string {
	switch {
	case c.Key == e.Key && c.Value == e.Value && (c.Value != "" || c.isPattern()):
		return exactly
	case c.isPattern():
		return "pattern"
	}
	return "any value"
}

// compare sets whether c fits e, and why it was not chosen.
func (c *Child) compare(e Entry, chosen *Child) {
	c.Fits = c.Entry.Fits(e)
	keyFits := glob(c.Key, e.Key)
	switch {
	case c.Fits && chosen.Why == exactly:
		c.Why = "fits too, but the exact value goes first"
	case c.Fits && c.isPattern():
		c.Why = "fits too, but comes later"
	case c.Fits:
		c.Why = "fits too, but a pattern goes before a key alone"
	case keyFits && strings.Contains(c.Value, "*"):
		c.Why = "the value does not fit the pattern"
	case keyFits && strings.EqualFold(c.Value, e.Value):
		c.Why = "another value: upper and lower case differ"
	case keyFits:
		c.Why = "another value"
	case strings.Contains(c.Key, "*"):
		c.Why = "the key does not fit the pattern"
	case strings.EqualFold(c.Key, e.Key):
		c.Why = "another key: upper and lower case differ"
	case c.nearlyNamed(e):
		c.Why = spelledNearly
	default:
		c.Why = "another key"
	}
}

// nearlyNamed reports whether c's key looks like a slip of e's. The shortest keys all look alike, and long ones cost time.
func (c *Child) nearlyNamed(e Entry) bool {
	return min(len(e.Key), len(c.Key)) > 2 && len(e.Key)+len(c.Key) <= maxShown && Nearest(e.Key, []string{c.Key}) != ""
}

// rank orders children by how near they come to e, once they are compared.
func (c *Child) rank(e Entry) int {
	switch {
	case c.Fits:
		return 0
	case glob(c.Key, e.Key), strings.EqualFold(c.Key, e.Key), c.Why == spelledNearly:
		return 1
	}
	return 2
}

// compareWhere orders lines of one file: 9 comes before 12.
func compareWhere(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

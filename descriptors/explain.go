package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

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
	Others []Child // those that fit but were passed over, then those that do not fit
	More   int     // children that are not listed
}

// Child is one configured descriptor of a level.
type Child struct {
	Entry        // the value is "" if the descriptor has none
	Where string // file:line
	Fits  bool
}

// String returns the entry as people write it: user=ann.
func (e Entry) String() string { return e.Key + "=" + e.Value }

// String returns the child as a file has it: user=ann, or user alone.
func (c Child) String() string {
	if c.Value == "" {
		return c.Key
	}
	return c.Entry.String()
}

// withPlace returns the child and where it stands, for a sentence.
func (c *Child) withPlace() string {
	return fmt.Sprintf("%s (%s)", Shown(c.String()), Printable(c.Where))
}

// Explain returns how a descriptor is matched, level by level, and why it ends on a rule or on none.
func (c *Config) Explain(domain string, d Descriptor) Explanation {
	x := Explanation{Domain: domain, Descriptor: d, Match: c.Match(domain, d)}
	configured := c.domains[domain]
	if configured == nil {
		x.Reason = c.unknownReason(domain)
		return x
	}
	x.DomainWhere = configured.Where
	n := &configured.Root
	for _, e := range d {
		next := n.step(&e)
		x.Steps = append(x.Steps, n.explain(e, next))
		if next == nil {
			x.Reason = x.noChildReason(e)
			return x
		}
		n = next
	}
	x.Reason = x.endReason(n)
	return x
}

// unknownReason returns why requests of a domain that has no rules match none.
func (c *Config) unknownReason(domain string) string {
	names, shown := c.DomainNames(), Shown(domain)
	switch {
	case c.Broken(domain):
		return "The files of domain " + shown + " have errors and never were good: its requests are answered UNAVAILABLE."
	case len(names) == 0:
		return "No domain is configured at all."
	}
	return fmt.Sprintf("No file configures domain %s. The configured ones are %s.", shown, Listed(names))
}

// MissingPath returns a sentence that no rule has a path, in a domain or, if that is "", in any.
func MissingPath(domain, path string) string {
	if domain != "" {
		domain = " of domain " + Shown(domain)
	}
	return fmt.Sprintf("No rule%s has the path %s; weir check DIR lists the rules.", domain, Shown(path))
}

// noChildReason returns where no child fits entry e, that of the last step.
func (x *Explanation) noChildReason(e Entry) string {
	where := "in domain " + Shown(x.Domain)
	if above := x.Steps[:len(x.Steps)-1]; len(above) > 0 {
		where = "below " + above[len(above)-1].Chosen.withPlace()
	}
	return fmt.Sprintf("No rule applies: %s nothing fits %s.", where, Shown(e.String()))
}

// endReason returns why a descriptor that ends on n gets its rule, or none.
func (x *Explanation) endReason(n *Node) string {
	if len(x.Steps) == 0 {
		return "No rule applies: the descriptor has no entries."
	}
	last := x.Steps[len(x.Steps)-1].Chosen.withPlace()
	switch {
	case n.Rule != nil:
		return fmt.Sprintf("Rule %s (%s) applies.", Shown(ReadablePath(n.Rule.Path)), Printable(n.Rule.Where))
	case len(n.children) > 0:
		return "No rule applies: the descriptor ends on " + last + ", which has no limit of its own, only below it."
	}
	return "No rule applies: " + last + " has no limit, so it lets through what it matches."
}

// explain lists n's children as entry e sees them; next is the one that it leads to.
func (n *Node) explain(e Entry, next *Node) Step {
	s := Step{Entry: e}
	others := make([]Child, 0, len(n.children))
	for id, child := range n.Children() {
		c := Child{Entry: id, Where: child.Where, Fits: id.Fits(e)}
		if child == next {
			s.Chosen = &c
		} else {
			others = append(others, c)
		}
	}
	rank := map[bool]int{true: 0, false: 1} // those that fit come first
	slices.SortFunc(others, func(a, b Child) int {
		return cmp.Or(rank[a.Fits]-rank[b.Fits], cmp.Compare(len(a.Where), len(b.Where)), // 9 comes before 12
			cmp.Compare(a.Where, b.Where), cmp.Compare(a.String(), b.String()))
	})
	s.Others = others[:min(len(others), maxListed)]
	s.More = len(others) - len(s.Others)
	return s
}

// String returns the account as a terminal shows it, over several lines.
func (x Explanation) String() string {
	var b strings.Builder
	if x.DomainWhere != "" {
		fmt.Fprintf(&b, "domain %s (%s)\n", Shown(x.Domain), Printable(x.DomainWhere))
	}
	for _, s := range x.Steps {
		s.write(&b)
	}
	b.WriteString(x.Reason + "\n")
	return b.String()
}

// write appends the step's entry and a table of the children that it met.
func (s *Step) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", Shown(s.Entry.String()))
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(mark string, c *Child, remark string) {
		fmt.Fprintf(table, "    %s\t%s\t%s\t%s\n", mark, Shown(c.String()), Printable(c.Where), remark)
	}
	if s.Chosen != nil {
		row("→", s.Chosen, "applies")
	}
	for i := range s.Others {
		remark := "does not fit"
		if s.Others[i].Fits {
			remark = "fits too, but comes after: first exact values, then patterns in their order, then keys alone"
		}
		row("·", &s.Others[i], remark)
	}
	if s.More > 0 {
		fmt.Fprintf(table, "    ·\tand %d more\n", s.More)
	}
	if s.Chosen == nil && len(s.Others) == 0 {
		fmt.Fprintf(table, "    ·\tnothing is configured here\n")
	}
	table.Flush() // a strings.Builder takes every write
}

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
	DomainWhere string // file:line; "" for a domain that is unknown or broken
	Descriptor  Descriptor
	Match       Match  // what Config.Match answers
	Reason      string // a sentence: why this rule, or why none
	steps       string // for each entry, up to the one that no child fits: the children that it met
}

// String returns the account as a terminal shows it, over several lines.
func (x Explanation) String() string {
	domain := ""
	if x.DomainWhere != "" {
		domain = fmt.Sprintf("domain %s (%s)\n", Abbreviate(x.Domain), Printable(x.DomainWhere))
	}
	return domain + x.steps + x.Reason + "\n"
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
	n, place := &configured.Root, "" // place says where n is configured, for a sentence
	for _, e := range d {
		next := n.child(&e)
		met := n.candidates(e, next)
		x.steps += describeStep(e, met)
		if next == nil {
			where := "in domain " + Abbreviate(domain)
			if place != "" {
				where = "below " + place
			}
			x.Reason = fmt.Sprintf("No rule applies: %s nothing fits %s.", where, Abbreviate(e.String()))
			return x
		}
		n, place = next, fmt.Sprintf("%s (%s)", Abbreviate(met[0].name), Printable(met[0].where))
	}
	x.Reason = n.endReason(place)
	return x
}

// unknownReason returns why requests of a domain that has no rules match none.
func (c *Config) unknownReason(domain string) string {
	names, shown := c.DomainNames(), Abbreviate(domain)
	switch {
	case c.Broken(domain):
		return "The files of domain " + shown + " have errors and never were good: its requests are answered UNAVAILABLE."
	case len(names) == 0:
		return "No domain is configured at all."
	}
	return fmt.Sprintf("No file configures domain %s. The configured ones are %s.", shown, Abbreviate(names...))
}

// endReason returns why a descriptor that ends on n gets its rule, or none.
func (n *Node) endReason(place string) string {
	switch {
	case place == "":
		return "No rule applies: the descriptor has no entries."
	case n.Rule != nil:
		return fmt.Sprintf("Rule %s (%s) applies.", Abbreviate(ReadablePath(n.Rule.Path)), Printable(n.Rule.Where))
	case len(n.children) > 0:
		return "No rule applies: the descriptor ends on " + place + ", which has no limit of its own, only below it."
	}
	return "No rule applies: " + place + " has no limit, so it lets through what it matches."
}

// child is a configured descriptor as an entry of a request meets it.
type child struct {
	name, where string // user=ann, or user alone; file:line
	remark      int    // an index of remarks
}

// The remarks on a child, in the order in which children are listed.
const applies, comesAfter, doesNotFit = 0, 1, 2

var remarks = [...]string{applies: "applies", doesNotFit: "does not fit",
	comesAfter: "fits too, but comes after: first exact values, then patterns in their order, then keys alone"}

// candidates returns n's children as entry e meets them; next is the one that it leads to, nil for none.
func (n *Node) candidates(e Entry, next *Node) []child {
	all := make([]child, 0, len(n.children))
	for id, configured := range n.children {
		c := child{name: id.Key, where: configured.Where, remark: doesNotFit}
		if id.Value != "" {
			c.name = id.String()
		}
		switch {
		case configured == next:
			c.remark = applies
		case id.Fits(e):
			c.remark = comesAfter
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b child) int {
		return cmp.Or(a.remark-b.remark, cmp.Compare(len(a.where), len(b.where)), // 9 comes before 12
			cmp.Compare(a.where, b.where), cmp.Compare(a.name, b.name))
	})
	return all
}

// describeStep returns an entry, and a table of the child that applies and up to ten others that the entry met.
func describeStep(e Entry, met []child) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n", Abbreviate(e.String()))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	listed := 0
	for _, c := range met {
		mark := "·"
		if c.remark == applies {
			mark = "→"
		} else if listed++; listed > maxListed {
			continue
		}
		fmt.Fprintf(table, "    %s\t%s\t%s\t%s\n", mark, Abbreviate(c.name), Printable(c.where), remarks[c.remark])
	}
	if listed > maxListed {
		fmt.Fprintf(table, "    ·\tand %d more\n", listed-maxListed)
	}
	if len(met) == 0 {
		fmt.Fprintf(table, "    ·\tnothing is configured here\n")
	}
	table.Flush() // a strings.Builder takes every write
	return b.String()
}

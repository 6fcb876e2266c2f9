package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Explanation explains how [Config.Match] matches a descriptor.
type Explanation struct {
	Domain      string
	DomainWhere string // file:line; "" for a domain that is unknown or broken
	Descriptor  Descriptor
	Match       Match  // result of Config.Match
	Reason      string // sentence: why this rule, or why none
	steps       string // for each entry, up to the first that no child matches, the candidates
}

// String returns the explanation for a terminal, in several lines.
func (x Explanation) String() string {
	domain := ""
	if x.DomainWhere != "" {
		domain = fmt.Sprintf("domain %s (%s)\n", Abbreviate(x.Domain), Printable(x.DomainWhere))
	}
	return domain + x.steps + x.Reason + "\n"
}

// Explain explains how a descriptor is matched, level by level, and why it ends on a rule or on none.
func (c *Config) Explain(domain string, d Descriptor) Explanation {
	x := Explanation{Domain: domain, Descriptor: d, Match: c.Match(domain, d)}
	configured := c.domains[domain]
	if configured == nil {
		x.Reason = c.unknownReason(domain)
		return x
	}
	x.DomainWhere = configured.Where
	n, position := &configured.Root, "" // position is where n is configured, for a sentence
	for _, e := range d {
		next := n.child(&e)
		candidates := n.candidates(e, next)
		x.steps += describeStep(e, candidates)
		if next == nil {
			where := "in domain " + Abbreviate(domain)
			if position != "" {
				where = "below " + position
			}
			x.Reason = fmt.Sprintf("No rule applies: %s nothing fits %s.", where, Abbreviate(e.String()))
			return x
		}
		n, position = next, fmt.Sprintf("%s (%s)", Abbreviate(candidates[0].name), Printable(candidates[0].where))
	}
	x.Reason = n.endReason(position)
	return x
}

// unknownReason returns why a domain has no rules.
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

// endReason returns why a descriptor that ends on n has a rule, or none.
func (n *Node) endReason(position string) string {
	switch {
	case position == "":
		return "No rule applies: the descriptor has no entries."
	case n.Rule != nil:
		return fmt.Sprintf("Rule %s (%s) applies.", Abbreviate(ReadablePath(n.Rule.Path)), Printable(n.Rule.Where))
	case len(n.children) > 0:
		return "No rule applies: the descriptor ends on " + position + ", which has no limit of its own, only below it."
	}
	return "No rule applies: " + position + " has no limit, so it lets through what it matches."
}

// candidate is a configured descriptor that is compared with an entry of a request.
type candidate struct {
	name, where string // user=ann, or user alone; file:line
	remark      int    // index into remarks
}

// The remarks on a candidate, in the order in which candidates are listed.
const applies, comesAfter, doesNotFit = 0, 1, 2

var remarks = [...]string{applies: "applies", doesNotFit: "does not fit",
	comesAfter: "fits too, but comes after: first exact values, then patterns in their order, then keys alone"}

// candidates returns n's children with remarks for entry e; next is the child that matches, nil for none.
func (n *Node) candidates(e Entry, next *Node) []candidate {
	all := make([]candidate, 0, len(n.children))
	for id, configured := range n.children {
		c := candidate{name: id.Key, where: configured.Where, remark: doesNotFit}
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
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(a.remark-b.remark, cmp.Compare(len(a.where), len(b.where)), // 9 comes before 12
			cmp.Compare(a.where, b.where), cmp.Compare(a.name, b.name))
	})
	return all
}

// describeStep returns an entry, and a table of the candidate that applies and up to ten others.
func describeStep(e Entry, candidates []candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n", Abbreviate(e.String()))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	listed := 0
	for _, c := range candidates {
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
	if len(candidates) == 0 {
		fmt.Fprintf(table, "    ·\tnothing is configured here\n")
	}
	table.Flush() // writes to a strings.Builder never fail
	return b.String()
}

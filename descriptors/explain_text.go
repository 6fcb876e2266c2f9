package descriptors

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// String returns the account as a terminal shows it, over several lines:
//
//	domain shop (shop.yaml:1)
//	  user=ann
//	    →  user        shop.yaml:5   any value
//	       user=root   shop.yaml:30  another value
//	Rule user (shop.yaml:5) applies.
func (x Explanation) String() string {
	var b strings.Builder
	if x.DomainWhere != "" {
		fmt.Fprintf(&b, "domain %s (%s)\n", Shown(x.Domain), Printable(x.DomainWhere))
	}
	for i := range x.Steps {
		x.Steps[i].write(&b)
	}
	b.WriteString(x.Reason)
	b.WriteByte('\n')
	return b.String()
}

// write appends the step's entry and a table of the children that it met.
func (s *Step) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s\n", Shown(s.Entry.String()))
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	row := func(mark string, c *Child) {
		fmt.Fprintf(table, "    %s\t%s\t%s\t%s\n", mark, Shown(c.String()), Printable(c.Where), c.Why)
	}
	if s.Chosen != nil {
		row("→", s.Chosen)
	}
	for i := range s.Others {
		row("·", &s.Others[i])
	}
	if s.More > 0 {
		fmt.Fprintf(table, "    ·\tand %d more\n", s.More)
	}
	if s.Chosen == nil && len(s.Others) == 0 {
		fmt.Fprintf(table, "    ·\tnothing is configured here\n")
	}
	table.Flush() // a strings.Builder takes every write
}

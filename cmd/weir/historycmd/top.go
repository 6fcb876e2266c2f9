package historycmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/curves"
)

type topCommand struct {
	target
	period
	By string `default:"hits" help:"What to rank by: hits, within, over, degraded, near or shadow."`
	N  int    `default:"20" short:"n" help:"How many to list."`
}

func (c *topCommand) Run(ctx context.Context, out terminal.Output, as settings.Program) error {
	a, err := ask(ctx, &c.target, out.Out, as, curves.Question{From: string(c.From), To: string(c.To), By: c.By, Rows: c.N},
		"/top", (*curves.History).Top)
	if err != nil {
		return err
	}
	if !c.JSON {
		title := fmt.Sprintf("%s, by %s\n", describeRange(a.From, a.To, out.Zone), terminal.Printable(a.By))
		if _, err := io.WriteString(out.Out, title+describeTop(&a, terminal.PaintFor(out.Out))); err != nil {
			return err
		}
	}
	return sound(a.Unreadable)
}

const topBar = 20 // columns, of the longest bar

// topColumns returns the kinds of hits that are worth showing, that of the ranking first.
func topColumns(a *curves.TopAnswer) []string {
	var columns []string
	if new(curves.TopRow).By(a.By) != nil { // else it is of a later version
		columns = append(columns, a.By)
	}
	for _, kind := range []string{"hits", "over", "degraded"} {
		some := slices.ContainsFunc(a.Top, func(r curves.TopRow) bool { return *r.By(kind) > 0 })
		if some && kind != a.By {
			columns = append(columns, kind)
		}
	}
	return columns
}

// describeTop returns the warnings, an empty line, and a table of rules:
//
//	  hits  over
//	12,345    12  ████████████████████  shop user/path=/pay
//	 1,000     0  ██                    shop user
func describeTop(a *curves.TopAnswer, p terminal.Paint) string {
	var b strings.Builder
	warn(&b, a.Warnings, p)
	b.WriteByte('\n')
	columns := topColumns(a)
	switch {
	case len(a.Top) == 0 && a.Unreadable > 0:
		b.WriteString("No other hits in this range; --from -30d looks further back.\n")
	case len(a.Top) == 0:
		b.WriteString("No hits in this range; --from -30d looks further back.\n")
	case len(columns) > 0:
		topTable(&b, a, columns, p)
	}
	return b.String()
}

func topTable(b *strings.Builder, a *curves.TopAnswer, columns []string, p terminal.Paint) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, column := range columns {
		fmt.Fprintf(table, "%s\t", column)
	}
	fmt.Fprintln(table)
	var shown uint64
	most := *a.Top[0].By(columns[0])
	for _, row := range a.Top {
		for _, column := range columns {
			fmt.Fprintf(table, "%s\t", terminal.Thousands(*row.By(column)))
		}
		hits := *row.By(columns[0])
		shown += hits
		bar := int(math.Ceil(topBar * float64(hits) / float64(most)))
		fmt.Fprintf(table, "  %s%s  %s\n", p.Dim(strings.Repeat("█", bar)), strings.Repeat(" ", topBar-bar),
			readable(row.Domain, row.Path, row.Value))
	}
	_ = table.Flush() // a builder takes everything
	if hidden := a.Found - len(a.Top); hidden > 0 {
		fmt.Fprintf(b, "and %d more with %s; -n lists more\n", hidden, terminal.Thousands(a.Total-shown))
	}
}

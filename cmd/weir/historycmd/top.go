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

// topCommand lists the rules with the most hits.
type topCommand struct {
	target
	period
	By string `default:"hits" help:"What to rank by: hits, within, over, degraded, near or shadow."`
	N  int    `default:"20" short:"n" help:"How many to list."`
}

// Run lists them.
func (c *topCommand) Run(ctx context.Context, out terminal.Output, as settings.Program) error {
	a, err := ask(ctx, &c.target, out.Out, as, curves.Question{From: string(c.From), To: string(c.To), By: c.By, Rows: c.N},
		"/top", (*curves.History).Top)
	if err != nil {
		return err
	}
	if !c.JSON {
		view := topView{answer: &a, paint: terminal.PaintFor(out.Out)}
		title := fmt.Sprintf("%s, by %s\n", describeRange(a.From, a.To, out.Zone), terminal.Printable(a.By))
		if _, err := io.WriteString(out.Out, title+view.String()); err != nil {
			return err
		}
	}
	return sound(a.Unreadable)
}

// topView is a table of rules:
//
//	  hits  over
//	12,345    12  ████████████████████  shop user/path=/pay
//	 1,000     0  ██                    shop user
type topView struct {
	answer *curves.TopAnswer
	paint  terminal.Paint
}

// topBar is the length of the longest bar, in columns.
const topBar = 20

// columns returns the kinds of hits that are worth showing, that of the ranking first.
func (v *topView) columns() []string {
	var columns []string
	if new(curves.TopRow).By(v.answer.By) != nil { // else it is of a later version
		columns = append(columns, v.answer.By)
	}
	for _, kind := range []string{"hits", "over", "degraded"} {
		some := slices.ContainsFunc(v.answer.Top, func(r curves.TopRow) bool { return *r.By(kind) > 0 })
		if some && kind != v.answer.By {
			columns = append(columns, kind)
		}
	}
	return columns
}

// String returns the warnings, an empty line, and the table.
func (v *topView) String() string {
	var b strings.Builder
	warn(&b, v.answer.Warnings, v.paint)
	b.WriteByte('\n')
	columns := v.columns()
	switch {
	case len(v.answer.Top) == 0 && v.answer.Unreadable > 0:
		b.WriteString("No other hits in this range; --from -30d looks further back.\n")
	case len(v.answer.Top) == 0:
		b.WriteString("No hits in this range; --from -30d looks further back.\n")
	case len(columns) > 0:
		v.table(&b, columns)
	}
	return b.String()
}

// table appends a line for each row.
func (v *topView) table(b *strings.Builder, columns []string) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, column := range columns {
		fmt.Fprintf(table, "%s\t", column)
	}
	fmt.Fprintln(table)
	var shown uint64
	most := *v.answer.Top[0].By(columns[0])
	for i := range v.answer.Top {
		row := &v.answer.Top[i]
		for _, column := range columns {
			fmt.Fprintf(table, "%s\t", terminal.Thousands(*row.By(column)))
		}
		hits := *row.By(columns[0])
		shown += hits
		bar := int(math.Ceil(topBar * float64(hits) / float64(most)))
		fmt.Fprintf(table, "  %s%s  %s\n", v.paint.Dim(strings.Repeat("█", bar)), strings.Repeat(" ", topBar-bar),
			readable(row.Domain, row.Path, row.Value))
	}
	_ = table.Flush() // a builder takes everything
	if hidden := v.answer.Found - len(v.answer.Top); hidden > 0 {
		fmt.Fprintf(b, "and %d more with %s; -n lists more\n", hidden, terminal.Thousands(v.answer.Total-shown))
	}
}

package historycmd

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

type topCommand struct {
	printFlags
	rangeFlags
	valueFlag
	By string `default:"hits" help:"What to rank by: hits, within, over (denied), shadow, degraded or near."`
	N  int    `default:"20" short:"n" help:"How many to list."`
}

func (*topCommand) Help() string { return exitCodes }

func (c *topCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}, "value": {c.Value}, "n": {strconv.Itoa(c.N)}, "by": {c.By}}
	if err := c.addTo(q, &out); err != nil {
		return err
	}
	a, err := printAnswer(ctx, &c.printFlags, out, q, "/top", (*historyapi.History).Top, func(a *historyapi.TopAnswer) (string, error) {
		if a.NoSeries {
			return "", c.errNoSeries(q, a.Lag, a.Warnings)
		}
		return describeTop(a, out.Zone, terminal.PaintFor(out.Out)), nil
	})
	return cmp.Or(err, exitFor(a.Unreadable, a.Found == 0))
}

const topBar = 20 // columns of the longest bar

// topColumns returns the outcomes to show: that of the ranking first, then those with hits.
func topColumns(a *historyapi.TopAnswer) []string {
	var columns []string
	if new(historyapi.TopRow).By(a.By) != nil { // nil for a ranking of a later version
		columns = append(columns, a.By)
	}
	for _, kind := range []string{"hits", "over", "shadow", "degraded"} {
		counted := slices.ContainsFunc(a.Top, func(r historyapi.TopRow) bool { return *r.By(kind) > 0 })
		if counted && kind != a.By {
			columns = append(columns, kind)
		}
	}
	return columns
}

// describeTop formats a title, the warnings, and a table of rules:
//
//	2026-11-21 11:00 to 12:01 UTC (1h 1m), by hits
//
//	  hits  over
//	12,345    12  ████████████████████  shop user/path=/pay
//	 1,000     0  ██                    shop user
func describeTop(a *historyapi.TopAnswer, zone *time.Location, p terminal.Paint) string {
	var b strings.Builder
	b.WriteString(describeRange(&a.Metadata, zone, ", by "+descriptors.Printable(a.By)))
	writeWarnings(&b, a.Warnings, p)
	b.WriteByte('\n')
	columns := topColumns(a)
	if len(a.Top) > 0 && len(columns) > 0 {
		topTable(&b, a, columns, p)
	} else if len(a.Top) == 0 {
		b.WriteString(describeNoHits(&a.Metadata, zone))
	}
	return b.String()
}

func topTable(b *strings.Builder, a *historyapi.TopAnswer, columns []string, p terminal.Paint) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, column := range columns {
		fmt.Fprintf(table, "%s\t", column)
	}
	fmt.Fprintln(table)
	var listed, highest uint64
	for _, row := range a.Top { // a later version may rank by something else
		hits := *row.By(columns[0])
		listed, highest = listed+hits, max(highest, hits)
	}
	for _, row := range a.Top {
		for _, column := range columns {
			fmt.Fprintf(table, "%s\t", terminal.Thousands(*row.By(column)))
		}
		bar := int(math.Ceil(topBar * float64(*row.By(columns[0])) / float64(highest)))
		fmt.Fprintf(table, "  %s%s  %s\n", p.Dim(strings.Repeat("█", bar)), strings.Repeat(" ", topBar-bar),
			readable(row.Domain, row.Path, row.Value))
	}
	_ = table.Flush() // writes to a builder never fail
	if hidden := a.Found - len(a.Top); hidden > 0 && columns[0] == a.By {
		fmt.Fprintf(b, "and %d more with %s; -n lists more\n", hidden, terminal.Thousands(a.Total-listed))
	} else if hidden > 0 {
		fmt.Fprintf(b, "and %d more; -n lists more\n", hidden)
	}
}

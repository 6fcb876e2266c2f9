package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// countersTop lists the keys with the most hits.
type countersTop struct {
	Domain string            `placeholder:"NAME" help:"The domain that the rules stand in; may be left out if there is only one."`
	Path   string            `placeholder:"PATH" help:"Only keys of this rule, such as user/path=/pay."`
	By     string            `default:"hits" help:"What to rank by: hits, within, over (denied), shadow, degraded or near."`
	N      rowCount          `default:"20" short:"n" help:"How many to list, at most 1000."`
	From   historycmd.Moment `placeholder:"T" help:"Ask the history of all weirs, from then on: -1h, 2026-11-15 or '2026-11-15 12:00'."`
	To     historycmd.Moment `placeholder:"T" help:"Likewise, before then; by default now."`
	TZ     string            `name:"tz" placeholder:"ZONE" help:"Read and show times as in this time zone: Europe/Berlin."`
	terminal.ProgressFlag
	portFlags
}

func (*countersTop) Help() string {
	return `Without --from it lists the keys with the most hits in the last half to whole minute, at the weirs of --admin, whatever
their store. "limit" is the strictest limit of the key's rule, or the one that denied last. A sentence below the table says
how exact the counts are. With --from it lists values in the history, from all weirs that share it: those of rules with
detailed_metric or value_to_metric. Exit code: 0, or 2 for an error.

    weir counters top --domain shop --by over                       who is over now
    weir counters top --domain shop --path user/path=/pay -n 50     who takes the most of a rule
    weir counters top --domain shop --by over --from -1d            who was over since yesterday, where rules keep values

--json prints the port's answer (server/admin/API.md), the most hits first.`
}

func (c *countersTop) Run(ctx context.Context, out terminal.Output) error {
	if err := out.SetZone(c.TZ); err != nil {
		return err
	}
	now := time.Now()
	query := url.Values{"n": {strconv.Itoa(int(c.N))}, "by": {c.By}, "domain": {c.Domain}, "path": {c.Path},
		"from": {c.From.In(out.Zone, now)}, "to": {c.To.In(out.Zone, now)}}
	if c.From != "" {
		_, stop := c.Start(out.Err, "")
		defer stop()
	}
	merge := func(all []*admin.TopAnswer) (*admin.TopAnswer, error) { return mergeTop(all, int(c.N)) }
	return askEach(ctx, out, &c.portFlags, "/api/v1/counters/top", query, merge, func(a *admin.TopAnswer, fleet fleet) string {
		return (&topView{answer: a, weirs: fleet.answered(), zone: out.Zone, paint: terminal.PaintFor(out.Out)}).String()
	})
}

// topView formats a ranking as text:
//
//	shop   this weir alone, the 42s since 12:00:00, most hits first
//
//	   hits   over  near      limit  rule  key
//	  2,310  1,890    12  10/minute  user  user=ann
//	     40      0     2  10/minute  user  user=bob
//
//	Counts of hits may be up to 7 too low, and a key that is not listed had 7 at most.
type topView struct {
	answer *admin.TopAnswer
	weirs  int // how many answered
	zone   *time.Location
	paint  terminal.Paint
}

func (v *topView) String() string {
	var b strings.Builder
	a := v.answer
	title := descriptors.Printable(a.Domain)
	if a.Path != "" {
		title += " " + readablePath(a.Path)
	}
	from := time.Unix(a.From, 0).In(v.zone)
	where := "all weirs, from " + from.Format("2006-01-02 15:04") + " to " + time.Unix(a.To, 0).In(v.zone).Format("2006-01-02 15:04")
	if a.Missing != nil {
		whose := "this weir alone"
		if v.weirs > 1 {
			whose = fmt.Sprintf("%d weirs", v.weirs)
		}
		where = fmt.Sprintf("%s, the %s since %s", whose, terminal.FormatSeconds(a.To-a.From), from.Format(time.TimeOnly))
	}
	fmt.Fprintf(&b, "%s   %s, most %s first\n\n", title, where, a.By)
	for _, warning := range a.Warnings {
		b.WriteString(v.paint.Yellow("warning: "+descriptors.Printable(warning)) + "\n\n")
	}
	if len(a.Top) > 0 {
		v.table(&b)
		b.WriteByte('\n')
	}
	b.WriteString(v.bound())
	return b.String()
}

func (v *topView) table(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	now := v.answer.Missing != nil
	third := v.answer.By
	if third == "hits" || third == "over" || new(admin.TopRow).By(third) == nil { // a later version's ranking
		third = "near"
	}
	columns := []string{"hits", "over", third}
	if third != "shadow" && slices.ContainsFunc(v.answer.Top, func(r admin.TopRow) bool { return r.Shadow > 0 }) {
		columns = slices.Insert(columns, 2, "shadow")
	}
	head := strings.Join(columns, "\t") + "\t"
	last := "rule\t  value"
	if now {
		head, last = head+"limit\t", "rule\t  key"
	}
	fmt.Fprintln(table, head+last)
	for i := range v.answer.Top {
		r := &v.answer.Top[i]
		for _, column := range columns {
			fmt.Fprintf(table, "%s\t", terminal.Thousands(*r.By(column)))
		}
		if now {
			limit := r.Limit
			if r.Burst > 0 {
				limit += fmt.Sprintf(" burst %d", r.Burst)
			}
			fmt.Fprintf(table, "%s\t", descriptors.Printable(limit))
		}
		name := descriptors.Printable(r.Descriptor)
		if r.Shared {
			name += " (all values that fit)"
		}
		fmt.Fprintf(table, "%s\t  %s\n", readablePath(r.Path), name)
	}
	_ = table.Flush() // a builder takes everything
}

// bound returns a sentence about how exact the table is, and what it omits.
func (v *topView) bound() string {
	a := v.answer
	text := ""
	if more := a.Found - len(a.Top); more > 0 {
		text = terminal.Thousands(uint64(more)) + " more: -n lists them. "
	}
	switch {
	case a.Missing == nil && len(a.Top) == 0 && len(a.Warnings) > 0:
		return ""
	case a.Missing == nil && len(a.Top) == 0 && a.By == "hits":
		return "No value had a series of its own then.\n"
	case a.Missing == nil && len(a.Top) == 0:
		return "No value with a series of its own had hits of " + descriptors.Printable(a.By) + " then.\n"
	case a.Missing == nil:
		return text + "A value may have had more, and other values some: these hits are in __other__, which weir history top lists.\n"
	case *a.Missing > 0:
		return text + fmt.Sprintf("Counts of %s may be up to %s too low, and a key that is not listed had %[2]s at most.\n", a.By, terminal.Thousands(*a.Missing))
	case len(a.Top) > 0:
		return text + "Counts of " + a.By + " are exact.\n"
	}
	return "No key had any since then. Ask each weir, or the history by --from.\n"
}

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// denialsCommand shows denials with their reasons, from the admin ports of running weirs.
type denialsCommand struct {
	Domain     string            `placeholder:"NAME" help:"Only rules of this domain."`
	Path       string            `placeholder:"PATH" help:"Only this rule, as it is stored (user/path=%2Fpay) or shown (user/path=/pay)."`
	Descriptor *string           `aliases:"value" placeholder:"K=V,K=V" help:"Instead of rules, list recent denials of descriptors that have these entries, by minute."`
	From       historycmd.Moment `placeholder:"T" help:"List recent denials, from then on: 02:30, -90m, 2026-11-15 or '2026-11-15 12:00'."`
	To         historycmd.Moment `placeholder:"T" help:"Likewise, before then."`
	TZ         string            `name:"tz" placeholder:"ZONE" help:"Read and show times as in this time zone: Europe/Berlin."`
	Values     bool              `help:"Show the descriptor of each last denial. Its values may be personal."`
	N          rowCount          `default:"20" short:"n" help:"How many to list, at most 1000."`
	portFlags
}

func (*denialsCommand) Help() string {
	return `Shows the last denial of each rule since the start of a running weir, from its admin port. Each replica has its own
denials: --admin may be a list, or a name that resolves to all replicas. "over" is the number of hits over the limit: they
were denied, unless the line says that they passed. "still" is how long a request like the last would still be denied; "-"
means that it would pass now, unless others came before it. With --descriptor, --from or --to it lists recent denials: a
line for each minute, limit and descriptor, with what decided, and the time since which all denials are kept. With a
history in Redis these are the denials of the last day, even from before the start. Exit code: 0, or 2 for an error.

    weir denials
    weir denials --domain shop --path user/path=/pay --values
    weir denials --descriptor user=ann --from 02:30 --to 02:50 --tz Europe/Berlin
    weir denials --admin weir-admin-pods:6070          of all pods, by the chart's headless Service

--json prints the port's answer (server/admin/API.md).`
}

func (c *denialsCommand) Run(ctx context.Context, out terminal.Output) error {
	if err := out.SetZone(c.TZ); err != nil {
		return err
	}
	now := time.Now()
	query := url.Values{"n": {strconv.Itoa(int(c.N))}, "domain": {c.Domain}, "path": {c.Path},
		"from": {c.From.In(out.Zone, now)}, "to": {c.To.After(c.From, out.Zone, now)}}
	if c.Descriptor != nil { // an empty one, as from an unset shell variable, must not mean all
		if err := checkDescriptor(*c.Descriptor); err != nil {
			if near := c.nearest(ctx); near != "" {
				err = fmt.Errorf("%w. %s", err, near)
			}
			return err
		}
		query.Set("descriptor", *c.Descriptor)
	}
	if c.Values {
		query.Set("values", "true")
	}
	merge := func(all []*admin.DenialsAnswer) (*admin.DenialsAnswer, error) { return mergeDenials(all, int(c.N)) }
	return askEach(ctx, out, &c.portFlags, "/api/v1/denials", query, merge, func(a *admin.DenialsAnswer, fleet fleet) string {
		return c.describe(ctx, a, out.Zone, fleet)
	})
}

// nearest returns a sentence with the recently denied descriptor most similar to the requested one, if values may be read.
func (c *denialsCommand) nearest(ctx context.Context) string {
	if c.Descriptor == nil {
		return ""
	}
	near, adding := descriptors.Nearest{Wanted: *c.Descriptor}, sync.Mutex{}
	query := url.Values{"domain": {c.Domain}, "path": {c.Path}, "from": {"-1d"}, "n": {"1000"}, "values": {"true"}}
	flags := c.portFlags
	flags.JSON = false
	// Weirs that do not answer, or refuse values, contribute none.
	_ = askEach(ctx, terminal.Output{Out: io.Discard}, &flags, "/api/v1/denials", query, nil, func(a *admin.DenialsAnswer, _ fleet) string {
		adding.Lock()
		defer adding.Unlock()
		if a.RecentAnswer != nil {
			for i := range a.Recent {
				near.Add(a.Recent[i].Descriptor)
			}
		}
		return ""
	})
	if near.Found == "" || near.Found == *c.Descriptor {
		return ""
	}
	return fmt.Sprintf("The most similar one is %s, which was denied recently", descriptors.Printable(near.Found))
}

// describe returns the answer as a table:
//
//	when     domain  rule            limit     over  still
//	12s ago  shop    user/path=/pay  5/minute  134   56s
func (c *denialsCommand) describe(ctx context.Context, a *admin.DenialsAnswer, zone *time.Location, fleet fleet) string {
	show := func(at float64) string { return timeOf(at).In(zone).Format(time.DateTime) }
	rows, title, what, since := a.Denials, "still", "rule", "Counted since "+show(a.Since)
	if a.RecentAnswer != nil {
		rows, title, what, since = a.Recent, "decided by", "line", "All are kept since "+show(a.KeptSince)
	}
	if len(rows) == 0 {
		others := fmt.Sprintf(" That is of %s, and of the last that began.\n%s\n", terminal.Count(fleet.answered(), "weir"), describeAsked(fleet))
		if fleet.asked == 1 {
			others = " Each replica keeps its own denials: ask the others, too.\n"
		}
		return c.describeNothing(a, show) + others +
			c.hint(ctx, a) +
			"weir history top --by over has what was denied before, or says what to set for a history,\n" +
			"and weir check DIR --explain DESCRIPTOR which rule a descriptor gets.\n"
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "when\tdomain\trule\tlimit\tover\t%s\t\n", title)
	for i := range rows {
		d := &rows[i]
		when, last := span(a.Now-d.At)+" ago", retryText(d)
		if a.RecentAnswer != nil {
			if when, last = show(d.First), deciders[d.DecidedBy]; show(d.At) != when {
				when += " to " + timeOf(d.At).In(zone).Format(time.TimeOnly)
			}
		}
		limit := strings.TrimSpace(d.Limit + " " + d.Name)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", when, descriptors.Printable(d.Domain), readablePath(d.Path),
			descriptors.Printable(limit), overText(d), last, remarks(d))
	}
	_ = table.Flush() // a strings.Builder takes everything
	var text strings.Builder
	writeRows(&text, b.String(), c.Values, func(row int) string { return rows[row].Descriptor })
	if a.More > 0 {
		fmt.Fprintf(&text, "… and %s more (-n lists them)\n", terminal.Count(a.More, what))
	}
	whose := "; each replica keeps its own.\n"
	if fleet.asked > 1 {
		whose = fmt.Sprintf(", when the last of %s began: a row for each weir.\n%s\n", terminal.Count(fleet.answered(), "weir"), describeAsked(fleet))
	}
	return text.String() + since + whose
}

// describeAsked returns a sentence with the number of weirs that were asked, and the addresses of those that did not
// answer.
func describeAsked(fleet fleet) string {
	if len(fleet.unreachable) == 0 {
		return fmt.Sprintf("Asked %d weirs: all answered.", fleet.asked)
	}
	return fmt.Sprintf("Asked %d weirs: without the denials of %s, which did not answer.", fleet.asked, descriptors.Printable(strings.Join(fleet.unreachable, ", ")))
}

// writeRows writes a table with a title line and, with values, the descriptor below each row.
func writeRows(b *strings.Builder, table string, values bool, descriptor func(row int) string) {
	for i, line := range strings.Split(strings.TrimSuffix(table, "\n"), "\n") {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if values && i > 0 {
			fmt.Fprintf(b, "    %s\n", descriptors.Printable(descriptor(i-1)))
		}
	}
}

// hint returns a sentence on how to list denials from before the start of the weir or, if recent ones were requested,
// one that names a similar descriptor.
func (c *denialsCommand) hint(ctx context.Context, a *admin.DenialsAnswer) string {
	if a.RecentAnswer != nil {
		if near := c.nearest(ctx); near != "" {
			return near + ".\n"
		}
		return ""
	}
	return "weir denials --from -1d lists those of the last day, with a history in Redis from before this start, too,\n"
}

// describeNothing returns a sentence with the time in which nothing was denied, as far as denials are kept.
func (c *denialsCommand) describeNothing(a *admin.DenialsAnswer, show func(float64) string) string {
	what := "Nothing was denied"
	if c.Domain+c.Path != "" || c.Descriptor != nil {
		what = "Nothing like that was denied"
	}
	switch {
	case a.RecentAnswer == nil:
		return fmt.Sprintf("%s since this weir started, at %s (%s ago).", what, show(a.Since), span(a.Now-a.Since))
	case a.To <= a.KeptSince:
		return fmt.Sprintf("Unknown: all denials are kept since %s only, and nothing like that is left from before.", show(a.KeptSince))
	case a.From < a.KeptSince:
		return fmt.Sprintf("%s here from %s to %s; what was denied before is not all kept.", what, show(a.KeptSince), show(a.To))
	}
	return fmt.Sprintf("%s here from %s to %s.", what, show(a.From), show(a.To))
}

// deciders explain DenialAnswer.DecidedBy in plain words.
var deciders = map[string]string{
	"store":      "the store's count",
	"deny_cache": "the deny cache: the store had just denied the key",
	"look":       "the store's count, by a look that adds nothing",
	"local":      "this weir's own count",
	"policy":     "nobody's count",
}

func timeOf(seconds float64) time.Time { return time.UnixMicro(int64(math.Round(seconds * 1e6))) }

// overText formats the number of hits over the limit and, if it differs, that of requests.
func overText(d *admin.DenialAnswer) string {
	hits := terminal.Thousands(d.OverHits)
	if d.OverHits == d.OverRequests {
		return hits
	}
	return hits + " in " + terminal.Count(int(d.OverRequests), "request")
}

// retryText returns how long a request like the last would still be denied.
func retryText(d *admin.DenialAnswer) string {
	switch {
	case d.RetrySeconds == nil:
		return "always"
	case *d.RetrySeconds == 0:
		return "-"
	}
	return terminal.FormatSeconds(*d.RetrySeconds)
}

// remarks lists the peculiarities of the last denial.
func remarks(d *admin.DenialAnswer) string {
	var all []string
	remark := func(applies bool, text string) {
		if applies {
			all = append(all, text)
		}
	}
	remark(d.Weir != "", "at "+descriptors.Printable(d.Weir))
	remark(d.Shadow, "passed: shadow mode")
	remark(d.Quota, "quota")
	remark(d.Descriptors > 1 && d.Descriptor == "", fmt.Sprintf("of %d descriptors: --values tells them apart", d.Descriptors))
	remark(d.Override, "the request's own limit")
	remark(d.DecidedBy == "local", "store away: counted locally")
	remark(d.DecidedBy == "policy", "store away: decided by the failure policy")
	remark(d.RetrySeconds == nil && d.Hits > 1, fmt.Sprintf("%d hits at once", d.Hits))
	return strings.Join(all, ", ")
}

// span formats a number of seconds; negative ones as 0.
func span(seconds float64) string { return terminal.FormatSeconds(int64(max(0, seconds))) }

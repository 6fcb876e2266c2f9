package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/ranking"
)

// countersTop asks a running weir who is over now.
type countersTop struct {
	Domain string        `placeholder:"NAME" help:"The domain that the rules stand in; may be left out if there is only one."`
	Path   string        `placeholder:"PATH" help:"Only keys of this rule, such as user/path=/pay."`
	N      int           `default:"20" short:"n" help:"How many to list."`
	For    time.Duration `default:"2s" help:"How long to look through the store, up to 1m; --timeout begins after it."`
	portFlags
}

func (*countersTop) Help() string {
	return `Ranks by the share of the fullest limit that is used now. In memory all keys are looked at; in Redis as many as there
is time for, while it spends at most a quarter of its time on it. The last line says what share was seen: asked again,
the same weir goes on where it ended, and --for 20s sees ten times as many. Exit code: 0, or 2 for an error.

    weir counters top --domain shop
    weir counters top --domain shop --path user/path=/pay -n 50 --for 20s --json

--json prints what the port answers (server/admin/API.md), the fullest first.`
}

// Run asks and prints.
func (c *countersTop) Run(ctx context.Context, out terminal.Output) error {
	if c.Timeout > 0 {
		c.Timeout += max(0, c.For)
	}
	query := url.Values{"n": {strconv.Itoa(c.N)}, "for": {c.For.String()}, "domain": {c.Domain}, "path": {c.Path}}
	_, err := ask(ctx, out, &c.portFlags, http.MethodGet, "/api/v1/counters/top", query, func(a *ranking.Answer) string {
		view := topView{answer: a, paint: terminal.PaintFor(out.Out)}
		return view.String()
	})
	return named("counters top", err)
}

// topView shows a ranking to people:
//
//	shop   2 keys have hits, 1 has nothing left
//
//	  used                        hits      limit  resets in
//	  100%  ████████████████████    10  10/minute        41s  user=ann   rule user
//	   30%  ██████                   3  10/minute        12s  user=bob   rule user
//
//	Saw all 2 keys of the store in 1ms.
type topView struct {
	answer *ranking.Answer
	paint  terminal.Paint
}

const topBar = 20 // columns, of a limit that is used up

func (v *topView) String() string {
	var b strings.Builder
	a := v.answer
	title := terminal.Printable(a.Domain)
	if a.Path != "" {
		title += " " + readable(a.Path)
	}
	fmt.Fprintf(&b, "%s   %s\n\n", title, v.summary())
	for _, warning := range a.Warnings {
		b.WriteString(v.paint.Yellow("warning: "+terminal.Printable(warning)) + "\n\n")
	}
	if len(a.Top) > 0 {
		v.table(&b)
		b.WriteByte('\n')
	} else {
		b.WriteString(v.empty())
	}
	b.WriteString(v.coverage())
	v.notes(&b)
	return b.String()
}

// summary counts the keys that have hits, and those that are over.
func (v *topView) summary() string {
	if v.answer.Counted == 0 {
		return "no key has hits"
	}
	text := plural(v.answer.Counted, "key has hits", "keys have hits") + ", "
	over := plural(v.answer.Over, "has nothing left", "have nothing left")
	if v.answer.Over > 0 {
		over = v.paint.Red(over)
	}
	return text + over
}

func plural(n uint64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return terminal.Thousands(n) + " " + more
}

func (v *topView) table(b *strings.Builder) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "used\t%s\thits\tlimit\tresets in\t\n", strings.Repeat(" ", topBar))
	for i := range v.answer.Top {
		r := &v.answer.Top[i]
		length := int(math.Ceil(topBar * min(1, max(0, r.Share))))
		bar := strings.Repeat("█", length) + strings.Repeat(" ", topBar-length)
		name := terminal.Printable(r.Descriptor)
		if r.Shared {
			name += " (all values that fit)"
		}
		if r.Hashed {
			name += " (#: a hash)"
		}
		if r.Ambiguous {
			name += " (or another)"
		}
		limit := r.Limit
		if r.Burst > 0 {
			limit += fmt.Sprintf(" burst %d", r.Burst)
		}
		fmt.Fprintf(table, "%.0f%%\t%s\t%s\t%s\t%s\t  %s   %s\n", math.Floor(100*r.Share), bar, terminal.Thousands(r.Hits),
			terminal.Printable(limit), terminal.Span(r.ResetSeconds), name,
			v.paint.Dim("rule "+readable(r.Path)))
	}
	_ = table.Flush() // a builder takes everything
}

// empty stands in place of the table if no key has hits.
func (v *topView) empty() string {
	text := "Nothing counts now"
	if !v.answer.Complete {
		text = "Nothing counts now among the keys that were seen"
	}
	return text + ": nobody used these limits within their windows.\n" +
		"weir history top --domain NAME --by over tells who was over before.\n\n"
}

// coverage describes the share of the store that was looked at.
func (v *topView) coverage() string {
	a := v.answer
	took := time.Duration(a.Seconds * float64(time.Second))
	if took = took.Round(time.Millisecond); took > time.Second {
		took = took.Round(100 * time.Millisecond)
	}
	if a.Complete {
		return fmt.Sprintf("Saw all %s of the store in %v.\n", plural(a.Seen, "key", "keys"), took)
	}
	share := 100 * float64(a.Seen) / float64(max(1, a.Held))
	return fmt.Sprintf("Saw %s of about %s (%.0f%%) in %v; ask again for the next part, or with a longer --for.\n",
		terminal.Thousands(a.Seen), plural(a.Held, "key", "keys"), math.Floor(share), took)
}

// notes counts the keys that are not in the table.
func (v *topView) notes(b *strings.Builder) {
	a := v.answer
	for _, n := range []struct {
		count     uint64
		one, more string
	}{
		{a.Unsure, "key may be as full as these: there was no time to read it in full", "keys may be as full as these: there was no time to read them in full"},
		{a.NoRule, "key of the domain is no rule's: a request brought its limit, or a former rule did", "keys of the domain are no rule's: requests brought their limits, or former rules did"},
		{a.Untold, "key does not tell what it counts: it is a hash, since it was too long", "keys do not tell what they count: they are hashes, since they were too long"},
	} {
		if n.count > 0 {
			fmt.Fprintf(b, "%s.\n", plural(n.count, n.one, n.more))
		}
	}
}

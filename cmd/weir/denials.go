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

	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/admin"
)

// denialsCommand shows why a weir has denied requests, over its admin port.
type denialsCommand struct {
	Domain  string          `placeholder:"NAME" help:"Only rules of this domain."`
	Path    string          `placeholder:"PATH" help:"Only this rule, as it is stored (user/path=%2Fpay) or shown (user/path=/pay)."`
	Values  bool            `help:"Show the descriptor of each rule's last denial. Its values may be personal."`
	N       int             `default:"20" short:"n" help:"How many rules to list, at most 1000."`
	Admin   string          `placeholder:"HOST:PORT" help:"Weir's admin port; 127.0.0.1:6070, or what DEBUG_HOST and DEBUG_PORT say."`
	Timeout time.Duration   `default:"5s" help:"How long to wait for the answer."`
	Token   adminport.Token `name:"token-file" env:"ADMIN_TOKEN_FILE,ADMIN_READ_TOKEN_FILE" placeholder:"FILE" help:"File that holds the token of ADMIN_TOKEN_FILE or ADMIN_READ_TOKEN_FILE, without which values may not be shown."`
	JSON    bool            `name:"json" help:"Print the answer as JSON."`
}

func (*denialsCommand) Help() string {
	return `Asks the admin port of a running weir, which keeps the last denial of each rule since its start; ask each replica, as
each keeps its own. "still" is how long a request like the last would still be denied: "-" if it would pass by now unless
others came before it.
Exit code: 0, or 2 for an error.

    weir denials
    weir denials --domain shop --path user/path=/pay --values
    weir denials --admin 10.0.0.7:6070 --json

--json prints what the port answers: since, now, denials [{at, domain, path, limit, name, algorithm, hits, count,
retry_seconds, decided_by, shadow, quota, override, denied_requests, denied_hits, descriptor}], more.`
}

// Run asks the port and prints a table, or the port's JSON.
func (c *denialsCommand) Run(ctx context.Context, out terminal.Output) error {
	body, err := c.fetch(ctx)
	return printAnswer(out, asked{"denials", c.Admin, c.JSON}, body, err, func(a *admin.DenialsAnswer) string {
		return c.describe(a, out.Zone)
	})
}

func (c *denialsCommand) fetch(ctx context.Context) ([]byte, error) {
	query := url.Values{"n": {strconv.Itoa(c.N)}}
	if err := setNames(query, map[string]string{"domain": c.Domain, "path": c.Path}); err != nil {
		return nil, err
	}
	var err error
	if c.Admin, err = adminAddress(c.Admin); err != nil {
		return nil, err
	}
	port := adminport.Port{Address: c.Admin, Timeout: c.Timeout, Token: c.Token}
	if c.Values {
		query.Set("values", "true")
	}
	return port.Ask(ctx, http.MethodGet, "/api/v1/denials", query)
}

// describe returns a table for people:
//
//	when      rule                limit     denied  still
//	12s ago   shop user/path=/pay 5/minute  134     56s
func (c *denialsCommand) describe(a *admin.DenialsAnswer, zone *time.Location) string {
	since := time.UnixMicro(int64(math.Round(a.Since * 1e6))).In(zone).Format("2006-01-02 15:04:05")
	if len(a.Denials) == 0 {
		what := "Nothing was denied"
		if c.Domain != "" || c.Path != "" {
			what = "Nothing like that was denied"
		}
		return fmt.Sprintf("%s since this weir started, at %s (%s ago). Each replica keeps its own denials: ask the others, too.\n"+
			"weir history top --by over has what was denied before, and weir check DIR --explain DESCRIPTOR which rule a descriptor gets.\n", what, since, span(a.Now-a.Since))
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "when\tdomain\trule\tlimit\tdenied\tstill\t")
	for i := range a.Denials {
		d := &a.Denials[i]
		fmt.Fprintf(table, "%s ago\t%s\t%s\t%s\t%s\t%s\t%s\n", span(a.Now-d.At), terminal.Printable(d.Domain),
			terminal.Printable(descriptors.ReadablePath(d.Path)), limitOf(d), deniedOf(d), stillOf(d), remarksOf(d))
	}
	_ = table.Flush() // a strings.Builder takes everything
	var text strings.Builder
	rows := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") // the first is the title
	for i, row := range rows {
		text.WriteString(strings.TrimRight(row, " ") + "\n")
		if c.Values && i > 0 {
			fmt.Fprintf(&text, "    %s\n", terminal.Printable(a.Denials[i-1].Descriptor))
		}
	}
	if a.More > 0 {
		fmt.Fprintf(&text, "… and %s more (-n lists them)\n", terminal.Count(a.More, "rule"))
	}
	return text.String() + "Denied since " + since + "; each replica keeps its own.\n"
}

// limitOf writes the limit, and its name if it has one.
func limitOf(d *admin.DenialAnswer) string {
	if d.Name != "" {
		return terminal.Printable(d.Limit + " " + d.Name)
	}
	return terminal.Printable(d.Limit)
}

// deniedOf counts the hits that were denied; where requests count none, or many, the requests too.
func deniedOf(d *admin.DenialAnswer) string {
	hits := terminal.Thousands(d.DeniedHits)
	if d.DeniedHits == d.DeniedRequests {
		return hits
	}
	return hits + " in " + terminal.Count(int(d.DeniedRequests), "request")
}

// stillOf tells how long a request like the last would still be denied.
func stillOf(d *admin.DenialAnswer) string {
	switch {
	case d.RetrySeconds == nil:
		return "always"
	case *d.RetrySeconds == 0:
		return "-"
	}
	return terminal.Span(*d.RetrySeconds)
}

// remarksOf tells what is unusual about the last denial.
func remarksOf(d *admin.DenialAnswer) string {
	var all []string
	remark := func(is bool, text string) {
		if is {
			all = append(all, text)
		}
	}
	remark(d.Shadow, "let through by shadow mode")
	remark(d.Quota, "quota")
	remark(d.Override, "the request's own limit")
	remark(d.DecidedBy == "local", "store away: counted locally")
	remark(d.DecidedBy == "policy", "store away: failure policy deny")
	remark(d.RetrySeconds == nil && d.Hits > 1, fmt.Sprintf("%d hits at once", d.Hits))
	return strings.Join(all, ", ")
}

// span writes a number of seconds, never a negative one.
func span(seconds float64) string { return terminal.Span(int64(max(0, seconds))) }

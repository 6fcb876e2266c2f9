package historycmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

type verifyCommand struct{ printFlags }

func (*verifyCommand) Help() string {
	return `Of each series, what is stored and what has expired must make all that was ever counted, at every moment: weir may
go on counting meanwhile. A series some of which cannot be read is not exact either, and is listed with the reason and
the key at fault. ` + exitCodes
}

func (c *verifyCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}}
	a, err := printAnswer(ctx, &c.printFlags, out, q, "/verify", (*historyapi.History).Verify, func(a *historyapi.VerifyAnswer) (string, error) {
		if a.Series == 0 {
			return "", c.errNoSeries(q, a.Lag, nil)
		}
		return describeVerified(a, terminal.PaintFor(out.Out)), nil
	})
	return cmp.Or(err, exitFor(a.Broken, a.Series == 0))
}

// describeVerified formats the result, with a line for each broken series.
func describeVerified(a *historyapi.VerifyAnswer, p terminal.Paint) string {
	summary := fmt.Sprintf("Looked at %d series with %d points", a.Series, a.Points)
	if a.Broken == 0 {
		return summary + ": each holds exactly what it ever counted.\n"
	}
	var b strings.Builder
	for _, s := range a.Named {
		name := "a series whose name"
		if s.Outcome != "" {
			name = readable(s.Domain, s.Path, s.Value) + " " + descriptors.Printable(s.Outcome)
		}
		if s.Error != "" {
			fmt.Fprintf(&b, "%s  %s cannot be read: %s\n", p.Red("NOT EXACT"), name, descriptors.Printable(s.Error))
			continue
		}
		counted := s.Stored + s.Expired
		difference := fmt.Sprintf("%s are missing", terminal.Thousands(s.Lifetime-counted))
		if counted > s.Lifetime {
			difference = fmt.Sprintf("%s too many", terminal.Thousands(counted-s.Lifetime))
		}
		fmt.Fprintf(&b, "%s  %s: %s stored and %s expired, but %s were counted: %s\n", p.Red("NOT EXACT"),
			name, terminal.Thousands(s.Stored), terminal.Thousands(s.Expired), terminal.Thousands(s.Lifetime), difference)
	}
	if hidden := a.Broken - len(a.Named); hidden > 0 {
		fmt.Fprintf(&b, "and %d more\n", hidden)
	}
	fmt.Fprintf(&b, "%s: %d of them not exact.\n", summary, a.Broken)
	return b.String()
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/weirproxy/weir/server/admin"
)

// exitInexact is what weir history verify ends with if a series is not exact, or cannot be read.
const exitInexact exitCode = 1

// historyVerifyCmd proves that the history is exact.
type historyVerifyCmd struct {
	historyTarget
}

// Help is what weir history verify --help shows below the first sentence.
func (*historyVerifyCmd) Help() string {
	return `Of each series, what is stored and what has expired must make all that was ever counted, at every moment: weir may
go on counting meanwhile. A series some of which cannot be read is not exact either, and is listed with the reason and
the key at fault. Exit code: 0 exact, 1 not, 2 for an error.`
}

// Run looks at all series and names those that are not exact.
func (c *historyVerifyCmd) Run(ctx context.Context) error {
	var answer admin.VerifyAnswer
	printed, err := c.ask(ctx, "/verify", map[string]string{}, &answer)
	if err != nil {
		return err
	}
	if !printed {
		if answer.Series == 0 {
			return c.nothing()
		}
		if _, err := io.WriteString(c.out(), describeVerified(&answer, newPaint(c.out()))); err != nil {
			return err
		}
	}
	if answer.Broken > 0 {
		return exitInexact
	}
	return nil
}

// describeVerified is the finding, a line for each series that is not exact.
func describeVerified(a *admin.VerifyAnswer, p paint) string {
	looked := fmt.Sprintf("Looked at %d series with %d points", a.Series, a.Points)
	if a.Broken == 0 {
		return looked + ": each holds exactly what it ever counted.\n"
	}
	var b strings.Builder
	for _, s := range a.Named {
		if s.Error != "" {
			fmt.Fprintf(&b, "%s  %s cannot be read: %s\n", p.red("NOT EXACT"), nameOfBroken(&s), printable(s.Error))
			continue
		}
		holds := s.Stored + s.Expired
		difference := fmt.Sprintf("%s are missing", thousands(s.Lifetime-holds))
		if holds > s.Lifetime {
			difference = fmt.Sprintf("%s too many", thousands(holds-s.Lifetime))
		}
		fmt.Fprintf(&b, "%s  %s: %s stored and %s expired, but %s were counted: %s\n", p.red("NOT EXACT"),
			nameOfBroken(&s), thousands(s.Stored), thousands(s.Expired), thousands(s.Lifetime), difference)
	}
	if hidden := a.Broken - len(a.Named); hidden > 0 {
		fmt.Fprintf(&b, "and %d more\n", hidden)
	}
	fmt.Fprintf(&b, "%s: %d of them not exact.\n", looked, a.Broken)
	return b.String()
}

// nameOfBroken is a series' name as people are shown it, or says that nobody knows it.
func nameOfBroken(s *admin.BrokenSeries) string {
	if s.Outcome == "" {
		return "a series whose name"
	}
	return readable(s.Domain, s.Path, s.Value) + " " + printable(s.Outcome)
}

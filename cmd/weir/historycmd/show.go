package historycmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/server/curves"
)

type showCommand struct {
	target
	period
	Outcome string `placeholder:"NAME" help:"Only within, over, degraded, near or shadow."`
	Value   string `placeholder:"TEXT" help:"Only this value, of a rule that counts values each by itself."`
	Points  int    `placeholder:"N" help:"Cut the range into at most N buckets; unless given, they are shown as stored."`
	TZ      string `name:"tz" placeholder:"ZONE" help:"Show times, and cut days, as in this time zone: Europe/Berlin."`
}

func (c *showCommand) Run(ctx context.Context, out terminal.Output, as settings.Program) error {
	if c.TZ != "" {
		var err error
		if out.Zone, err = time.LoadLocation(c.TZ); err != nil {
			return fmt.Errorf("history: --tz %q is not a time zone, such as Europe/Berlin", c.TZ)
		}
	}
	a, err := ask(ctx, &c.target, out.Out, as, curves.Question{Outcome: c.Outcome, Value: c.Value, From: string(c.From),
		To: string(c.To), Points: c.Points, Zone: c.TZ}, "", (*curves.History).Show)
	switch {
	case err != nil:
		return err
	case c.JSON:
	case len(a.Series) == 0 && a.Unreadable == 0:
		return c.nothing("outcome", c.Outcome, "value", c.Value)
	default:
		v := showView{answer: &a, zone: out.Zone, width: terminal.Width(out.Out), paint: terminal.PaintFor(out.Out)}
		if _, err := io.WriteString(out.Out, v.String()); err != nil {
			return err
		}
	}
	return sound(a.Unreadable)
}

// showView shows series to people, each as a curve on the same axis of time:
//
//	2026-11-21 11:00 to 12:01 UTC (1h 1m)
//
//	shop user  within
//	  42/min ┤         ▃█▅
//	         ┤      ▂▄█████▃
//	       0 └─────────┬─────────┬────
//	                   11:20     11:40
//	  total 1,234   lifetime 56,789   peak 42 in the minute of 11:21   stored by 1m
type showView struct {
	answer *curves.HistoryAnswer
	zone   *time.Location
	width  int // columns
	paint  terminal.Paint
}

// maxCurves is how many series are drawn: further ones would scroll the first away.
const maxCurves = 10

func (v *showView) String() string {
	a := v.answer
	var b strings.Builder
	fmt.Fprintln(&b, describeRange(a.From, a.To, v.zone))
	warn(&b, a.Warnings, v.paint)
	var drawn []*curves.SeriesAnswer
	empty, hidden := 0, 0
	for i := range a.Series {
		switch {
		case a.Series[i].Total == 0:
			empty++
		case len(drawn) == maxCurves:
			hidden++
		default:
			drawn = append(drawn, &a.Series[i])
		}
	}
	rows := 8
	if len(drawn) > 2 {
		rows = 4
	}
	for _, s := range drawn {
		v.series(&b, s, rows)
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "\n%d more series with hits: --path, --outcome and --value choose, weir history top ranks them.\n",
			hidden)
	}
	if len(drawn) == 0 {
		v.nothing(&b)
	} else if empty > 0 {
		fmt.Fprintf(&b, "\n%d more series without hits in this range.\n", empty)
	}
	return b.String()
}

// nothing appends that no series has hits, and of some that they have hits elsewhere.
func (v *showView) nothing(b *strings.Builder) {
	what := "hits"
	if v.answer.Unreadable > 0 {
		what = "other hits"
	}
	fmt.Fprintf(b, "\nNo %s in this range.\n", what)
	for _, s := range v.answer.Series[:min(len(v.answer.Series), maxCurves)] {
		fmt.Fprintf(b, "%s  %s: %s in its lifetime; --from -30d looks further back\n",
			readable(s.Domain, s.Path, s.Value), terminal.Printable(s.Outcome), terminal.Thousands(s.Lifetime))
	}
}

func (v *showView) series(b *strings.Builder, s *curves.SeriesAnswer, rows int) {
	colour := map[string]func(string) string{"within": v.paint.Green, "near": v.paint.Green, "over": v.paint.Red,
		"shadow": v.paint.Red}[s.Outcome]
	if colour == nil {
		colour = v.paint.Yellow
	}
	fmt.Fprintf(b, "\n%s  %s\n", readable(s.Domain, s.Path, s.Value), colour(terminal.Printable(s.Outcome)))
	chart := newChart(v.answer.From, v.answer.To, s.Points, v.width)
	chart.draw(b, rows, v.zone, colour)
	stored := v.stored(s.Points)
	before := "   "
	if strings.Contains(stored, ",") {
		before = "\n  "
	}
	fmt.Fprintf(b, "  total %s   lifetime %s   %s%s%s\n", terminal.Thousands(s.Total), terminal.Thousands(s.Lifetime), v.peak(s.Points),
		before, stored)
}

// peak describes the largest minute, and the bucket that it was in.
func (v *showView) peak(points []curves.PointAnswer) string {
	var most curves.PointAnswer
	for _, p := range points {
		if p.Peak > most.Peak {
			most = p
		}
	}
	at := time.Unix(most.Start, 0).In(v.zone)
	layout := "15:04"
	if v.answer.To-v.answer.From > 86400 {
		layout = "02 Jan 15:04"
	}
	if most.Width <= history.Minutes.Width() {
		return fmt.Sprintf("peak %s a minute at %s", terminal.Thousands(most.Peak), at.Format(layout))
	}
	return fmt.Sprintf("peak %s a minute in the %s from %s", terminal.Thousands(most.Peak), terminal.Span(most.Width), at.Format(layout))
}

// stored tells which tiers the hits came from, and until when.
func (v *showView) stored(points []curves.PointAnswer) string {
	until := make(map[string]int64)
	for _, p := range points {
		if p.Tier != "" {
			until[p.Tier] = max(until[p.Tier], p.Start+p.Width)
		}
	}
	var tiers []string
	for _, t := range []history.Tier{history.Days, history.Hours, history.FiveMinutes, history.Minutes} {
		name := t.String()
		end, some := until[name]
		if !some {
			continue
		}
		if delete(until, name); len(until) > 0 {
			name += " until " + time.Unix(end, 0).In(v.zone).Format("02 Jan 15:04")
		} else if len(tiers) > 0 {
			name = "then " + name
		}
		tiers = append(tiers, name)
	}
	return "stored by " + strings.Join(tiers, ", ")
}

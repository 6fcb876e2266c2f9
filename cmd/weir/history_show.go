package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/admin"
)

// historyShowCmd draws hits over time.
type historyShowCmd struct {
	historyTarget
	historyRange
	Outcome string `placeholder:"NAME" help:"Only within, over, degraded, near or shadow."`
	Value   string `placeholder:"TEXT" help:"Only this value, of a rule that counts values each by itself."`
	Points  int    `placeholder:"N" help:"Cut the range into at most N buckets; unless given, they are shown as stored."`
	TZ      string `name:"tz" placeholder:"ZONE" help:"Show times, and cut days, as in this time zone: Europe/Berlin."`
}

// Run draws them.
func (c *historyShowCmd) Run(ctx context.Context) error {
	zone := c.local()
	if c.TZ != "" {
		var err error
		if zone, err = time.LoadLocation(c.TZ); err != nil {
			return fmt.Errorf("history: --tz %q is not a time zone, such as Europe/Berlin", c.TZ)
		}
	}
	parameters := map[string]string{"from": string(c.From), "to": string(c.To), "outcome": c.Outcome, "value": c.Value,
		"tz": c.TZ}
	if c.Points != 0 {
		parameters["points"] = strconv.Itoa(c.Points)
	}
	var answer admin.HistoryAnswer
	printed, err := c.ask(ctx, "", parameters, &answer)
	if err != nil {
		return err
	}
	if !printed {
		if len(answer.Series) == 0 && answer.Unreadable == 0 {
			return c.nothing("outcome", c.Outcome, "value", c.Value)
		}
		v := showView{answer: &answer, zone: zone, width: terminalWidth(c.out()), paint: newPaint(c.out())}
		if _, err := io.WriteString(c.out(), v.String()); err != nil {
			return err
		}
	}
	return complete(answer.Unreadable)
}

// terminalWidth is how many columns w has; 80 if it is no terminal.
func terminalWidth(w io.Writer) int {
	if f, isFile := w.(*os.File); isFile {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
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
	answer *admin.HistoryAnswer
	zone   *time.Location
	width  int // columns
	paint  paint
}

// maxCurves is how many series are drawn: further ones would scroll the first away.
const maxCurves = 10

// String is the view, over several lines.
func (v *showView) String() string {
	a := v.answer
	var b strings.Builder
	fmt.Fprintln(&b, describeRange(a.From, a.To, v.zone))
	warn(&b, a.Warnings, v.paint)
	var drawn []*admin.SeriesAnswer
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

// nothing says that no series has hits, and of some that they have hits elsewhere.
func (v *showView) nothing(b *strings.Builder) {
	what := "hits"
	if v.answer.Unreadable > 0 {
		what = "other hits"
	}
	fmt.Fprintf(b, "\nNo %s in this range.\n", what)
	for i := range v.answer.Series[:min(len(v.answer.Series), maxCurves)] {
		s := &v.answer.Series[i]
		fmt.Fprintf(b, "%s  %s: %s in its lifetime; --from -30d looks further back\n",
			readable(s.Domain, s.Path, s.Value), printable(s.Outcome), thousands(s.Lifetime))
	}
}

func (v *showView) series(b *strings.Builder, s *admin.SeriesAnswer, rows int) {
	colour := map[string]func(string) string{"within": v.paint.green, "near": v.paint.green, "over": v.paint.red,
		"shadow": v.paint.red}[s.Outcome]
	if colour == nil {
		colour = v.paint.yellow
	}
	fmt.Fprintf(b, "\n%s  %s\n", readable(s.Domain, s.Path, s.Value), colour(printable(s.Outcome)))
	chart := newChart(v.answer.From, v.answer.To, s.Points, v.width)
	chart.draw(b, rows, v.zone, colour)
	stored := v.stored(s.Points)
	before := "   "
	if strings.Contains(stored, ",") {
		before = "\n  "
	}
	fmt.Fprintf(b, "  total %s   lifetime %s   %s%s%s\n", thousands(s.Total), thousands(s.Lifetime), v.peak(s.Points),
		before, stored)
}

// peak is the largest minute, and the bucket that it was in.
func (v *showView) peak(points []admin.PointAnswer) string {
	var most admin.PointAnswer
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
		return fmt.Sprintf("peak %s a minute at %s", thousands(most.Peak), at.Format(layout))
	}
	return fmt.Sprintf("peak %s a minute in the %s from %s", thousands(most.Peak), span(most.Width), at.Format(layout))
}

// stored says which tiers the hits came from, and until when.
func (v *showView) stored(points []admin.PointAnswer) string {
	until := make(map[string]int64)
	for _, p := range points {
		if p.Tier != "" {
			until[p.Tier] = max(until[p.Tier], p.Start+p.Width)
		}
	}
	var tiers []string
	for _, t := range []history.Tier{history.Days, history.Hours, history.FiveMinutes, history.Minutes} {
		end, some := until[t.String()]
		if !some {
			continue
		}
		delete(until, t.String())
		if len(until) > 0 {
			tiers = append(tiers, t.String()+" until "+time.Unix(end, 0).In(v.zone).Format("02 Jan 15:04"))
		} else if len(tiers) > 0 {
			tiers = append(tiers, "then "+t.String())
		} else {
			tiers = append(tiers, t.String())
		}
	}
	return "stored by " + strings.Join(tiers, ", ")
}

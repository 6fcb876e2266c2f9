package historycmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/cmd/weir/terminal"
)

type showCommand struct {
	printed
	timeRange
	seriesFilter
	Step string `placeholder:"WIDTH" help:"Cut the range into buckets this wide: 15m, 6h, 1d (days of --tz, or of UTC), 1w; unless given, as many are drawn as fit."`
}

func (c *showCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}, "outcome": {c.Outcome}, "value": {c.Value}, "step": {c.Step}}
	width := terminal.Width(out.Out)
	if c.Step == "" && !c.JSON {
		q.Set("points", strconv.Itoa(columnsOf(width)))
	}
	if err := c.addTo(q, &out); err != nil {
		return err
	}
	a, err := printAnswer(ctx, &c.printed, out, q, "", (*query.History).Show, func(a *query.HistoryAnswer) (string, error) {
		if len(a.Series) == 0 && len(a.Warnings) == 0 {
			return "", noSeries(q)
		}
		v := showView{answer: a, zone: out.Zone, width: width, paint: terminal.PaintFor(out.Out)}
		return v.String(), nil
	})
	return cmp.Or(err, noIfBroken(a.Unreadable))
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
//	  total 1,234   lifetime 56,789   peak 42/min at 11:21
//	  stored by 1m
type showView struct {
	answer *query.HistoryAnswer
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
	drawn := slices.DeleteFunc(slices.Clone(a.Series), func(s query.SeriesAnswer) bool { return s.Total == 0 || len(s.Points) == 0 })
	empty, hidden := len(a.Series)-len(drawn), max(len(drawn)-maxCurves, 0)
	drawn = drawn[:len(drawn)-hidden]
	rows := 8
	if len(drawn) > 2 {
		rows = 4
	}
	for i := range drawn {
		v.series(&b, &drawn[i], rows)
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "\n%d more series with hits: --path, --outcome and --value choose, weir history top ranks them.\n",
			hidden)
	}
	if len(drawn) == 0 {
		fmt.Fprint(&b, "\n", noHits(&a.Metadata, v.zone))
	} else if empty > 0 {
		fmt.Fprintf(&b, "\n%d more series without hits in this range.\n", empty)
	}
	return b.String()
}

func (v *showView) series(b *strings.Builder, s *query.SeriesAnswer, rows int) {
	colour := map[string]func(string) string{"within": v.paint.Green, "near": v.paint.Green, "over": v.paint.Red,
		"shadow": v.paint.Red}[s.Outcome]
	if colour == nil {
		colour = v.paint.Yellow
	}
	fmt.Fprintf(b, "\n%s  %s\n", readable(s.Domain, s.Path, s.Value), colour(terminal.Printable(s.Outcome)))
	drawn, undrawn := s.Points, ""
	if first := slices.IndexFunc(drawn, func(p query.PointAnswer) bool { return p.Partial }); first > 0 { // it would look like a drop
		drawn, undrawn = drawn[:first], "   hits from "+v.stamp(drawn[first].Start)+" on are still counted: not drawn"
	}
	newChart(drawn, v.width, rows, v.zone).draw(b, colour, v.paint.Dim)
	fmt.Fprintf(b, "  total %s   lifetime %s   %s\n", terminal.Thousands(s.Total), terminal.Thousands(s.Lifetime), v.peak(s.Points))
	fmt.Fprintf(b, "  %s%s\n", v.tiers(s.Points), undrawn)
}

// stamp writes a moment as briefly as the range allows: its day is clear within one, and its year within one.
func (v *showView) stamp(moment int64) string {
	layout := "02 Jan 15:04"
	switch {
	case v.answer.To-v.answer.From <= day:
		layout = "15:04"
	case twoYears(v.answer.From, v.answer.To, v.zone):
		layout = "02 Jan 2006 15:04"
	}
	return time.Unix(moment, 0).In(v.zone).Format(layout)
}

// peak describes the largest minute, and the bucket that it was in.
func (v *showView) peak(points []query.PointAnswer) string {
	highest := slices.MaxFunc(points, func(a, b query.PointAnswer) int { return cmp.Compare(a.Peak, b.Peak) })
	if highest.Width <= history.Minutes.Width() {
		return fmt.Sprintf("peak %s/min at %s", terminal.Thousands(highest.Peak), v.stamp(highest.Start))
	}
	return fmt.Sprintf("peak %s/min in the %s from %s", terminal.Thousands(highest.Peak), terminal.Span(highest.Width), v.stamp(highest.Start))
}

// tiers says of which tiers the hits are stored, and until when.
func (v *showView) tiers(points []query.PointAnswer) string {
	until := make(map[string]int64)
	for _, p := range points {
		if p.Tier != "" {
			until[p.Tier] = max(until[p.Tier], p.Start+p.Width)
		}
	}
	var tiers []string
	for _, t := range []history.Tier{history.Days, history.Hours, history.FiveMinutes, history.Minutes} {
		name := t.String()
		end, used := until[name]
		if !used {
			continue
		}
		if delete(until, name); len(until) > 0 {
			name += " until " + v.stamp(end)
		} else if len(tiers) > 0 {
			name = "then " + name
		}
		tiers = append(tiers, name)
	}
	return "stored by " + strings.Join(tiers, ", ")
}

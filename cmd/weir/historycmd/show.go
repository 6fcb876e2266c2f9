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
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
)

type showCommand struct {
	printFlags
	rangeFlags
	seriesFlags
	Step string `placeholder:"WIDTH" help:"Cut the range into buckets this wide: 15m, 6h, 1d (days of --tz), 1w; by default as many are drawn as fit."`
}

func (*showCommand) Help() string { return exitCodes }

func (c *showCommand) Run(ctx context.Context, out terminal.Output) error {
	q := url.Values{"domain": {c.Domain}, "path": {c.Path}, "outcome": {c.Outcome}, "value": {c.Value}, "step": {c.Step}}
	width := terminal.Width(out.Out)
	if c.Step == "" && !c.JSON {
		q.Set("points", strconv.Itoa(columnsOf(width)))
	}
	if err := c.addTo(q, &out); err != nil {
		return err
	}
	a, err := printAnswer(ctx, &c.printFlags, out, q, "", (*historyapi.History).Show, func(a *historyapi.HistoryAnswer) (string, error) {
		if a.NoSeries {
			return "", c.errNoSeries(q, a.Lag, a.Warnings)
		}
		v := showView{answer: a, zone: out.Zone, width: width, paint: terminal.PaintFor(out.Out), stepped: c.Step != ""}
		return v.String(), nil
	})
	hits := slices.ContainsFunc(a.Series, func(s historyapi.SeriesAnswer) bool { return s.Total > 0 })
	return cmp.Or(err, exitFor(a.Unreadable, !hits))
}

// showView formats series for people, each as a curve on the same time axis:
//
//	2026-11-21 11:00 to 12:01 UTC (1h 1m)
//
//	shop user  within
//	  42/min ┤         ▃█▅
//	         ┤      ▂▄█████▃
//	       0 └─────────┬─────────┬────
//	                   11:20     11:40
//	  total 1,234   lifetime 56,789   peak 42/min at 11:21
type showView struct {
	answer *historyapi.HistoryAnswer
	zone   *time.Location
	width  int // columns
	paint  terminal.Paint

	stepped bool // the user chose the width of buckets
}

// maxCurves is how many series are drawn: more would scroll the first away.
const maxCurves = 10

func (v *showView) String() string {
	a := v.answer
	var b strings.Builder
	counting := ""
	if slices.ContainsFunc(a.Series, func(s historyapi.SeriesAnswer) bool { return len(s.Points) > 0 && s.Points[len(s.Points)-1].Partial }) {
		counting = ", ┄ still counting"
	}
	answered := a.Metadata
	if minute := a.Now - a.Now%60 + 60; answered.From < minute { // like history top: there are no hits in the future
		answered.To = min(answered.To, minute)
	}
	b.WriteString(describeRange(&answered, v.zone, counting))
	b.WriteString(v.describeMerged())
	writeWarnings(&b, a.Warnings, v.paint)
	drawn := slices.DeleteFunc(slices.Clone(a.Series), func(s historyapi.SeriesAnswer) bool { return s.Total == 0 || len(s.Points) == 0 })
	drawn = drawn[:min(len(drawn), maxCurves)]
	rows := 8
	if len(drawn) > 2 {
		rows = 4
	}
	for i := range drawn {
		v.series(&b, &drawn[i], rows)
	}
	if more := len(a.Series) - len(drawn); len(drawn) == 0 {
		fmt.Fprint(&b, "\n", describeNoHits(&a.Metadata, v.zone))
	} else if more > 0 {
		fmt.Fprintf(&b, "\n%d more series: --path, --outcome and --value choose, weir history top ranks them.\n", more)
	}
	return b.String()
}

// describeMerged says how many steps a bar has, if more than one.
func (v *showView) describeMerged() string {
	steps := 0
	for _, s := range v.answer.Series {
		steps = max(steps, len(s.Points)) // all series have as many
	}
	each := stepsOfBar(steps, columnsOf(v.width))
	if !v.stepped || each < 2 {
		return ""
	}
	return fmt.Sprintf("each bar is the mean of %d steps, as %d do not fit into %d columns; --json has every step\n", each, steps, v.width)
}

func (v *showView) series(b *strings.Builder, s *historyapi.SeriesAnswer, rows int) {
	colour := map[string]func(string) string{"within": v.paint.Green, "near": v.paint.Green, "over": v.paint.Red,
		"shadow": v.paint.Red}[s.Outcome]
	if colour == nil {
		colour = v.paint.Yellow
	}
	part := ""
	if s.PartOf != "" {
		part = ", part of " + descriptors.Printable(s.PartOf)
	}
	fmt.Fprintf(b, "\n%s  %s%s\n", readable(s.Domain, s.Path, s.Value), colour(descriptors.Printable(s.Outcome)), part)
	drawn := slices.Clone(s.Points)
	for i := range drawn {
		if p := &drawn[i]; p.Partial { // only as wide as the time that has passed: else it would look like a drop
			p.Width = min(max(v.answer.Now-p.Start, 60), p.Width)
		}
	}
	newChart(drawn, v.width, rows, v.zone).draw(b, colour, func(s string) string { return v.paint.Dim(colour(s)) })
	peak := slices.MaxFunc(s.Points, func(a, b historyapi.PointAnswer) int { return cmp.Compare(a.Peak, b.Peak) })
	fmt.Fprintf(b, "  total %s   lifetime %s   peak %s/min at %s\n", terminal.Thousands(s.Total), terminal.Thousands(s.Lifetime),
		terminal.Thousands(peak.Peak), v.stamp(peak.Start))
}

// stamp formats a time as briefly as the range allows: without the date within a day, without the year within a year.
func (v *showView) stamp(moment int64) string {
	layout := "02 Jan 15:04"
	switch {
	case v.answer.To-v.answer.From <= history.Day:
		layout = "15:04"
	case twoYears(v.answer.From, v.answer.To, v.zone):
		layout = "02 Jan 2006 15:04"
	}
	return time.Unix(moment, 0).In(v.zone).Format(layout)
}

package simulatecmd

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-analyze/charts"

	"github.com/weirproxy/weir/descriptors"
)

const maxPlotted = 300 // points of a curve

// plot draws the hits and denials over time of the rule that denied most, as an SVG. There must be a rule. A point is
// the largest of its minutes, as a mean would hide the few that deny.
func (r *report) plot(file string) error {
	of := slices.MaxFunc(r.Rules, func(a, b ruleReport) int { return cmp.Compare(a.Results[0].Denied, b.Results[0].Denied) })
	minutes, labels := of.Results[0].minutes, []string(nil)
	asked, denied, width := curves(minutes)
	title, layout := of.Domain+" "+descriptors.ReadablePath(of.Path)+", hits a minute, UTC", "15:04"
	if width > 1 {
		title += fmt.Sprintf("; each point is the largest of %d minutes", width)
	}
	if int64(len(asked))*width > 2*24*60 {
		layout = "2 Jan"
	}
	for i := range asked {
		labels = append(labels, time.Unix(minutes[0].Start+int64(i)*width*60, 0).UTC().Format(layout))
	}
	o := charts.NewLineChartOptionWithData([][]float64{asked, denied})
	o.Theme = charts.GetDefaultTheme().WithSeriesColors([]charts.Color{charts.ColorBlue, charts.ColorRed})
	o.Title.Text = title
	o.XAxis.Labels, o.Legend.SeriesNames, o.Symbol = labels, []string{"asked", "denied"}, charts.Symbol{Shape: charts.SymbolNone}
	o.Legend.Offset = charts.OffsetRight
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 1000, Height: 400})
	if err := p.LineChart(o); err != nil {
		return err
	}
	svg, err := p.Bytes()
	if err != nil {
		return err
	}
	return os.WriteFile(file, svg, 0o644)
}

// curves returns the largest minute of requested and of denied hits in each interval of width minutes.
func curves(minutes []minute) (asked, denied []float64, width int64) {
	length := (minutes[len(minutes)-1].Start-minutes[0].Start)/60 + 1
	width = (length + maxPlotted - 1) / maxPlotted
	asked, denied = make([]float64, (length+width-1)/width), make([]float64, (length+width-1)/width)
	for _, m := range minutes {
		i := (m.Start - minutes[0].Start) / 60 / width
		asked[i], denied[i] = max(asked[i], float64(m.Asked)), max(denied[i], float64(m.Denied))
	}
	return asked, denied, width
}

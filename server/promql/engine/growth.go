package engine

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// labelGrowth bounds what label_join, label_replace and count_values make of the labels of a series. Each of the first two
// can double a label, and thirty of them around each other would fill any memory with one series; count_values makes
// another series at each moment. All that a query has are taken to stand around each other.
type labelGrowth struct {
	added     float64 // labels
	factor    float64 // how many labels of the series one of them may hold
	extra     float64 // bytes that one may hold beside these
	perMoment float64 // bytes at each moment
}

// growthBy returns what an expression makes of labels.
func growthBy(e parser.Node) labelGrowth {
	g := labelGrowth{factor: 1}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Op == parser.COUNT_VALUES {
				g.perMoment += float64(300 + len(n.Param.String()))
			}
		case *parser.Call:
			sources, join := 0, n.Func.Name == "label_join"
			switch {
			case len(n.Args) < 3 || !join && n.Func.Name != "label_replace":
				return nil
			case join:
				sources = len(n.Args) - 3 // each behind a separator
			default:
				sources = strings.Count(n.Args[2].String(), "$")
			}
			sources = max(sources, 1)
			g.added++
			g.factor *= float64(sources)
			g.extra += float64(len(n.Args[1].String()) + sources*len(n.Args[2].String()))
		}
		return nil
	})
	return g
}

// cost returns how many samples' memory is taken by what is made of a series at so many moments, whose labels have so many
// bytes.
func (g labelGrowth) cost(labels, moments int) int {
	bytes := g.added*g.factor*(float64(labels)+g.extra) + g.perMoment*float64(moments)
	return int(math.Min(bytes/float64(sampleSize), math.MaxInt32))
}

package engine

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// names bounds what label_join, label_replace and count_values make of the labels of a series. Each of the first two can
// double a label, and thirty of them around each other would fill any memory with one series; count_values makes another
// series at each moment. All that a query has are taken to stand around each other.
type names struct {
	made  float64 // labels
	times float64 // how many labels of the series one of them may hold
	more  float64 // bytes that one may hold beside these
	each  float64 // bytes at each moment
}

// namesOf returns the names that an expression makes.
func namesOf(e parser.Node) names {
	all := names{times: 1}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Op == parser.COUNT_VALUES {
				all.each += float64(300 + len(n.Param.String()))
			}
		case *parser.Call:
			holds, join := 0, n.Func.Name == "label_join"
			switch {
			case len(n.Args) < 3 || !join && n.Func.Name != "label_replace":
				return nil
			case join:
				holds = len(n.Args) - 3 // sources, each behind a separator
			default:
				holds = strings.Count(n.Args[2].String(), "$")
			}
			holds = max(holds, 1)
			all.made++
			all.times *= float64(holds)
			all.more += float64(len(n.Args[1].String()) + holds*len(n.Args[2].String()))
		}
		return nil
	})
	return all
}

// cost returns how many samples' memory the names take that are made of a series at so many moments, whose labels have so
// many bytes.
func (n names) cost(labels, moments int) int {
	bytes := n.made*n.times*(float64(labels)+n.more) + n.each*float64(moments)
	return int(math.Min(bytes/float64(sampleSize), math.MaxInt32))
}

package engine

import (
	"errors"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// NewParser returns a parser of Prometheus's default syntax.
func NewParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// Both expressions are refused, as their memory has no bound: Prometheus's engine does not count the samples of a
// smoothed selector without a window.
var (
	errCountValues = errors.New("count_values is not among what weir evaluates: it makes a series of each value at each moment")
	errSmoothed    = errors.New("smoothed is for selectors with a window, as in x[5m] smoothed")
)

// smoothing is a [parser.Parser] that adds "smoothed" to plain rates, so that they interpolate inside buckets, and
// refuses expressions without a bound. It changes the parsed query, so positions in messages are those of the text.
type smoothing struct{ parser.Parser }

func (s smoothing) ParseExpr(text string) (parser.Expr, error) {
	if err := CheckText(text); err != nil {
		return nil, err
	}
	expr, err := s.Parser.ParseExpr(text)
	if err != nil {
		return expr, err
	}
	var refused error
	parser.Inspect(expr, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			if n.Op == parser.COUNT_VALUES {
				refused = errCountValues
			}
		case *parser.VectorSelector:
			if n.Smoothed && !windowed(path) {
				refused = errSmoothed
			}
		case *parser.Call:
			if n.Func != nil && slices.Contains([]string{"rate", "increase", "delta"}, n.Func.Name) {
				for _, arg := range n.Args {
					smooth(arg)
				}
			}
		}
		return nil
	})
	return expr, refused
}

// smooth marks a plain range selector as smoothed; not one that is anchored or smoothed already, nor a subquery.
func smooth(arg parser.Expr) {
	switch e := arg.(type) {
	case *parser.ParenExpr:
		smooth(e.Expr)
	case *parser.MatrixSelector:
		if selector, ok := e.VectorSelector.(*parser.VectorSelector); ok && !selector.Anchored {
			selector.Smoothed = true
		}
	}
}

// windowed reports whether the last selector of a path has a window.
func windowed(path []parser.Node) bool {
	if len(path) == 0 {
		return false
	}
	_, is := path[len(path)-1].(*parser.MatrixSelector)
	return is
}

package engine

import (
	"slices"

	"github.com/prometheus/prometheus/promql/parser"
)

// smoothing is a [parser.Parser] that has plain rates interpolate inside buckets, as if they were written with "smoothed". It
// changes what was parsed, not the text, so that positions in messages are those of the text.
type smoothing struct{ parser.Parser }

func (s smoothing) ParseExpr(text string) (parser.Expr, error) {
	if err := Fits(text); err != nil {
		return nil, err
	}
	expr, err := s.Parser.ParseExpr(text)
	if err != nil {
		return expr, err
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		call, ok := n.(*parser.Call)
		if ok && call.Func != nil && slices.Contains([]string{"rate", "increase", "delta"}, call.Func.Name) {
			for _, arg := range call.Args {
				smooth(arg)
			}
		}
		return nil
	})
	return expr, nil
}

// smooth marks a plain range selector. One that is anchored or smoothed, and a subquery, stay as they are.
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

package engine

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// maxTokens is the most tokens of a query. Parsing takes time that grows with their square. Evaluation takes a stack
// that grows with their nesting, and a full stack ends the process.
const maxTokens = 5000

// maxCostlyBytes is the most bytes of all costly patterns of a query, which repeat, have classes, or fold case. Each
// byte of these may become 1,000 instructions of some 100 bytes; a byte of any other pattern becomes one instruction.
const maxCostlyBytes = 256

// costlyPattern matches such patterns, but nothing escaped.
var costlyPattern = regexp.MustCompile(`(?s)^(?:[^\\]|\\[^pP])*?(?:[{[]|\\[pP]|\(\?)`)

// CheckText returns an error if a text is too costly for Prometheus's parser: too long, or with patterns that take much
// memory and time to compile, which the parser does. Call it before you parse text of a request; Instant and Range do.
// It finds no other faults.
func CheckText(text string) error {
	lexer := parser.Lex(text)
	budget := maxCostlyBytes
	for n := 0; n <= maxTokens; n++ {
		var item parser.Item
		lexer.NextItem(&item)
		switch item.Typ {
		case parser.EOF, parser.ERROR:
			return nil
		case parser.STRING: // may be a pattern
			pattern, err := strutil.Unquote(item.Val)
			if err != nil {
				return nil // the parser says so
			}
			if costlyPattern.MatchString(pattern) {
				budget -= len(pattern)
			}
			if budget < 0 {
				return fmt.Errorf("the patterns of the query that repeat or have classes are longer than %d bytes: ask in several queries",
					maxCostlyBytes)
			}
		}
	}
	return fmt.Errorf("the query has more than %d tokens: ask in several queries", maxTokens)
}

// maxPointsRead is the most points of one series that functions over subqueries may read; a point counts once for each
// window that holds it. Prometheus's engine reads some 10⁸ points a second, and notices only between series that its
// caller has left.
const maxPointsRead = 100_000_000

// checkSteps returns an error if a query and its subqueries have so many steps that Prometheus's engine would keep more
// than the bound on samples, or read more than maxPointsRead. The engine itself counts neither.
func checkSteps(s *parser.EvalStmt, maximum int) error {
	span, moments := float64(max(s.End.Sub(s.Start), 0)), 1.0
	if s.Interval > 0 {
		moments += span / float64(s.Interval)
	}
	evaluated, read := moments, 0.0
	parser.Inspect(s.Expr, func(n parser.Node, path []parser.Node) error {
		sub, ok := n.(*parser.SubqueryExpr)
		if !ok {
			return nil
		}
		length, outside := span, moments // of what is around the subquery
		for _, outer := range path {
			if o, ok := outer.(*parser.SubqueryExpr); ok {
				length += float64(o.Range)
				outside = 1 + length/stepOf(o)
			}
		}
		read += outside * float64(sub.Range) / stepOf(sub)
		evaluated += 1 + (length+float64(sub.Range))/stepOf(sub)
		return nil
	})
	if evaluated > float64(maximum) || read > maxPointsRead {
		return promql.ErrTooManySamples(phase)
	}
	return nil
}

// growth bounds how much longer label_replace and label_join may make names.
type growth struct {
	all, longest float64 // factors: for all labels of a series together, and for its longest label
	text         int     // bytes of the query, parts of which may be in each label
}

// cost returns how many samples a name costs after its growth, from its cost as stored.
func (g growth) cost(name int) int {
	return int(min(float64(name)+g.all*float64(name+g.text/sampleSize), math.MaxInt32))
}

// growthOf returns the growth by an expression.
func growthOf(n parser.Node) (g growth) {
	g.longest = 1
	for child := range parser.ChildrenIter(n) {
		of := growthOf(child)
		g.all, g.longest = max(g.all, of.all), max(g.longest, of.longest)
	}
	call, _ := n.(*parser.Call)
	if call == nil || call.Func == nil {
		return g
	}
	parts := 0 // number of parts, each as long as the longest label at most
	switch call.Func.Name {
	case "label_replace":
		parts = max(strings.Count(call.Args[2].String(), "$"), 1)
	case "label_join":
		parts = max(len(call.Args)-3, 1)
	}
	if parts > 0 {
		g.longest *= float64(parts)
		g.all += g.longest
	}
	return g
}

// stepOf returns the step of a subquery in nanoseconds.
func stepOf(s *parser.SubqueryExpr) float64 {
	return float64(cmp.Or(s.Step, subqueryStep*time.Millisecond))
}

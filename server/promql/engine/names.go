package engine

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// size bounds a length in bytes: so many times the longest label of a series, and so many more.
type size struct{ times, more float64 }

func (a size) plus(b size) size { return size{a.times + b.times, a.more + b.more} }
func (a size) max(b size) size  { return size{math.Max(a.times, b.times), math.Max(a.more, b.more)} }

// by returns so many times as much.
func (a size) by(n int) size {
	if n == 0 {
		return size{} // also of infinitely much
	}
	return size{a.times * float64(n), a.more * float64(n)}
}

// names bounds what label_join and label_replace make of the labels of a series: the longest, and all that were added.
// Each can double a label, and thirty of them around each other would fill any memory with one series. And it bounds what
// count_values makes of a series at each moment: another one.
type names struct {
	longest, added size
	each           float64 // bytes
}

// namesOf returns the names that an expression makes.
func namesOf(n parser.Node) names {
	var all names
	if _, is := n.(*parser.VectorSelector); is {
		all.longest.times = 1
	}
	for child := range parser.ChildrenIter(n) {
		one := namesOf(child)
		all = names{all.longest.max(one.longest), all.added.plus(one.added), all.each + one.each}
	}
	if a, is := n.(*parser.AggregateExpr); is && a.Op == parser.COUNT_VALUES {
		all.each += float64(300 + len(literal(a.Param)))
	}
	call, is := n.(*parser.Call)
	if !is {
		return all
	}
	var made size
	switch {
	case call.Func.Name == "label_join" && len(call.Args) >= 3:
		sources := len(call.Args) - 3
		made = all.longest.by(sources)
		made.more += float64(sources * len(literal(call.Args[2])))
	case call.Func.Name == "label_replace" && len(call.Args) >= 3:
		replacement := literal(call.Args[2])
		made = all.longest.by(strings.Count(replacement, "$"))
		made.more += float64(len(replacement))
	default:
		return all
	}
	all.longest = all.longest.max(made)
	made.more += float64(len(literal(call.Args[1])))
	all.added = all.added.plus(made)
	return all
}

// literal returns the text of an argument that must be one.
func literal(e parser.Expr) string {
	for {
		switch inner := e.(type) {
		case *parser.StringLiteral:
			return inner.Val
		case *parser.ParenExpr:
			e = inner.Expr
		case *parser.StepInvariantExpr:
			e = inner.Expr
		default:
			return ""
		}
	}
}

// cost returns how many samples' memory the names take that are made of a series at so many moments, whose longest label
// has so many bytes. Both are at least 1.
func (n names) cost(longest, moments int) int {
	bytes := n.added.times*float64(longest) + n.added.more + n.each*float64(moments)
	return int(math.Min(bytes/float64(sampleSize), math.MaxInt32))
}

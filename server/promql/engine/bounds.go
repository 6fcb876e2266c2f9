package engine

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// maxTokens is how many tokens a query may have. Prometheus's parser takes a time that grows with their square, its
// evaluation a stack that grows with how deep they are nested, and a stack that is full ends the process.
const maxTokens = 5000

// maxPatterns is how many instructions the patterns of a query may have, all together. Each takes some 100 bytes.
const maxPatterns = 500_000

// Fits returns an error if a text is too much to be given to Prometheus's parser: too long, or with patterns that take
// much memory and time once they are compiled, which the parser does. Whatever parses what a request brings is to ask
// before; Instant and Range do. It says nothing of what is wrong with the text otherwise.
func Fits(text string) error {
	lexer := parser.Lex(text)
	budget := maxPatterns
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
			if budget -= instructions(pattern); budget < 0 {
				return fmt.Errorf("the patterns of the query repeat too much, or have too many classes: at most %d steps are "+
					"compiled: ask in several queries", maxPatterns)
			}
		}
	}
	return fmt.Errorf("the query has more than %d tokens: ask in several queries", maxTokens)
}

var repeat = regexp.MustCompile(`\{([0-9]+)(?:,([0-9]*))?\}`)

// instructions returns how many a pattern is compiled to at most, where a class of characters, which takes more memory
// and time than they do, stands for many: most where case may be folded. It may be far fewer.
func instructions(pattern string) int {
	const maxRepeats = 1000 // however repeats are nested, more is an error in a pattern
	times, class := 1, 500
	for _, found := range repeat.FindAllStringSubmatch(pattern, -1) {
		for _, bound := range found[1:] {
			if n, err := strconv.Atoi(bound); err == nil && n > 1 {
				times = min(times*min(n, maxRepeats), maxRepeats)
			}
		}
	}
	if strings.Contains(pattern, "(?") {
		class = 5000
	}
	classes := strings.Count(pattern, "[") + strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	return len(pattern)*times + class*classes
}

// maxRead is how many points of one series the functions over a query's subqueries may read, each as often as windows hold
// it. Prometheus's engine looks only between series whether its caller has left, and reads some 10⁸ points a second.
const maxRead = 100_000_000

// checkSteps returns an error if a query and its subqueries are evaluated at so many moments that what Prometheus's engine
// keeps of each would be more than the bound on samples, or if it would read more than maxRead: it counts neither.
func checkSteps(s *parser.EvalStmt, maximum int) error {
	span, moments := float64(max(s.End.Sub(s.Start), 0)), 1.0
	if s.Interval > 0 {
		moments += span / float64(s.Interval)
	}
	all, read := moments, 0.0
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
		all += 1 + (length+float64(sub.Range))/stepOf(sub)
		return nil
	})
	if all > float64(maximum) || read > maxRead {
		return promql.ErrTooManySamples(where)
	}
	return nil
}

// stepOf returns the step of a subquery in nanoseconds.
func stepOf(s *parser.SubqueryExpr) float64 {
	return float64(cmp.Or(s.Step, subqueryStep*time.Millisecond))
}

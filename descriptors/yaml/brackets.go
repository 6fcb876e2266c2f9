package yaml

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// flowBegin matches a line in block style up to a bracket that begins a value in flow style.
	flowBegin = regexp.MustCompile(`^(?:[^"'#\[{]*(?:: +|- +)|\s*|\s*"[^"]*": *)([\[{])`)
	// flowToken matches a bracket, or a quoted text or a comment, whose brackets do not count.
	flowToken = regexp.MustCompile(`(?:[\[{,:] *|^\s*)(?:` + quoted + `)|(?:^|\s)#.*|[\[\]{}]`)
)

// bracket is an open bracket and its line.
type bracket struct {
	sign byte
	line int
}

func (b bracket) closer() byte { return b.sign + 2 } // in ASCII

func (b bracket) String() string {
	return fmt.Sprintf("no %c closes the %c of this line", b.closer(), b.sign)
}

// unbalanced returns the line of the first bracket without a counterpart, and a message; 0 for none.
func unbalanced(lines []string) (line int, text string) {
	var open []bracket
	for i, rest := range lines {
		if len(open) == 0 {
			at := flowBegin.FindStringSubmatchIndex(rest)
			if at == nil {
				continue
			}
			rest = rest[at[2]:]
		}
		for _, token := range flowToken.FindAllString(strings.TrimRight(rest, "\r\n"), -1) {
			b, n := token[0], len(open)
			switch {
			case b == '[' || b == '{':
				open = append(open, bracket{b, i + 1})
			case b != ']' && b != '}':
			case n > 0 && open[n-1].closer() == b:
				open = open[:n-1]
			case n > 1 && open[n-2].closer() == b && (open[n-1].line == i+1 || !strings.ContainsAny(rest, "[{")):
				// Of a line that also opens brackets, the closing one is the extra one.
				return open[n-1].line, open[n-1].String()
			default:
				return i + 1, fmt.Sprintf("a %c closes what nothing opens: leave it out", b)
			}
		}
	}
	if len(open) > 0 {
		return open[0].line, open[0].String()
	}
	return 0, ""
}

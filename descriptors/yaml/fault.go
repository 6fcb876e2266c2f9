package yaml

import (
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// minTries and tries bound how much text is read again to find a fault: so many bytes, and the file so many times.
	minTries, tries = 256 << 10, 4
	// maxDashes is how many dashes of a line are looked at.
	maxDashes = 10
)

// brokenText is a file that is no YAML, and is searched for its fault. The YAML library often names the line on which the
// block around it begins, or the one before.
type brokenText struct {
	lines []string // with their ends
	left  int      // how many bytes may be read again
	err   error    // of the library
	said  string   // its text
	last  int      // the line at which it gave up
}

// fault is where a file goes wrong, and what would be right.
type fault struct {
	line int // from 1; 0 if it is not known
	text string
}

// ours is what only descriptor files have, right or wrong. Others may hold secrets, which no message repeats.
var ours = regexp.MustCompile(`(?m)^\W*(domain|descriptors)(["':\s]|$)`)

// findFault returns the fault of a file for which the library has this error.
func findFault(data []byte, err error) fault {
	line, said := syntaxError(err)
	if !ours.Match(data) {
		return fault{line, "not valid YAML, and no line begins with domain: begin a descriptor file with domain: and " +
			"its name, and keep all others elsewhere"}
	}
	b := &brokenText{lines: strings.SplitAfter(string(data), "\n"), left: minTries + tries*len(data), err: err, said: said}
	first, last := b.region(line)
	at, looks := first, []func(int) (fault, bool){b.tab, b.sign, b.openQuote, b.dash, b.colon, b.bracket, b.indent}
	b.last = last
	switch {
	case first == 0:
		at, looks = line, looks[:3] // these see by themselves whether they are right
	case line > first && line <= last:
		at = line // within something that goes over several lines, the library knows better
	}
	for _, look := range looks {
		if f, found := look(at); found {
			return f
		}
	}
	return fault{at, "not valid YAML: " + said}
}

// region returns the lines among which the fault is: the first is behind the longest part of the file that is right by
// itself, the last is the one at which the library gave up. They are 0 if that takes too much reading. Told is the
// library's line.
func (b *brokenText) region(told int) (first, last int) {
	if b.isExact(told) {
		return told, told
	}
	r := &lineReader{lines: b.lines}
	decode(r)
	last = r.read
	for first = last; first > 0; first-- {
		if right, known := b.right(b.lines[:first-1]); !known {
			return 0, 0
		} else if right {
			return first, last
		}
	}
	return 0, 0
}

// isExact reports whether the library's line is where something begins that is found to be wrong only later, maybe far
// away.
func (b *brokenText) isExact(line int) bool {
	if line < 1 || line > len(b.lines) ||
		!strings.Contains(b.said, "unexpected end of stream") && !strings.Contains(b.said, "could not find expected ':'") {
		return false
	}
	before, known := b.right(b.lines[:line-1])
	with, alsoKnown := b.right(b.lines[:line])
	return known && before && alsoKnown && !with
}

// right reports whether these lines are YAML; it is not known once too much has been read.
func (b *brokenText) right(lines []string) (right, known bool) {
	known, err := b.read(lines)
	return known && err == nil, known
}

// read returns what the library says of these lines, and whether that may still be asked.
func (b *brokenText) read(lines []string) (known bool, err error) {
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	if b.left -= size; b.left < 0 {
		return false, nil
	}
	return true, decode(strings.NewReader(strings.Join(lines, "")))
}

func decode(r io.Reader) error {
	var n yaml.Node
	if err := yaml.NewDecoder(r).Decode(&n); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// lineReader gives a line for each Read that has room for one, so that it knows how far its reader has come.
type lineReader struct {
	lines []string
	read  int // how many were begun
	left  string
}

func (r *lineReader) Read(p []byte) (int, error) {
	if r.left == "" {
		if r.read == len(r.lines) {
			return 0, io.EOF
		}
		r.left = r.lines[r.read]
		r.read++
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// line returns a line without its end; there is none before the first and behind the last.
func (b *brokenText) line(at int) string {
	if at < 1 || at > len(b.lines) {
		return ""
	}
	return strings.TrimRight(b.lines[at-1], "\r\n")
}

// contentBefore returns the last line before at that says something, 0 for none.
func (b *brokenText) contentBefore(at int) int {
	for at--; at > 0; at-- {
		if said := strings.TrimSpace(b.line(at)); said != "" && said[0] != '#' {
			return at
		}
	}
	return 0
}

// indented returns how many spaces a line begins with.
func indented(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// columns returns the columns, from 0, in which what encloses a line begins: those of the lines above it that are less
// indented, and the deepest one above it. The shallowest comes first.
func (b *brokenText) columns(at int) (columns []int) {
	least := 1 << 30
	for above := b.contentBefore(at); above > 0 && least > 0; above = b.contentBefore(above) {
		for _, column := range slices.Backward(starts(b.line(above))) {
			if column < least {
				columns, least = append(columns, column), column
			}
		}
	}
	slices.Reverse(columns)
	return columns
}

// starts returns the columns in which something begins on a line: each of its leading dashes, and what follows them.
func starts(line string) (columns []int) {
	column := indented(line)
	columns = append(columns, column)
	for strings.HasPrefix(line[column:], "- ") && len(columns) < maxDashes {
		column += 2 + indented(line[column+2:])
		columns = append(columns, column)
	}
	return columns
}

// misplacedLine returns the line near at that must be moved, and to which column, for the whole file to be right. Of
// several it is the one whose indentation is rarest in the file: 0 if moving one line is not enough.
func (b *brokenText) misplacedLine(at int) (line, column int) {
	rarest := 1 << 30
	for candidate, n := at, 0; candidate > 0 && n < 4; candidate, n = b.contentBefore(candidate), n+1 {
		text := b.line(candidate)
		own := indented(text)
		common := b.commonness(own)
		if common >= rarest || strings.ContainsRune(text[:len(text)-len(strings.TrimLeft(text, " \t"))], '\t') {
			continue
		}
		for _, to := range b.moves(candidate, at) {
			moved := slices.Clone(b.lines)
			moved[candidate-1] = strings.Repeat(" ", to) + b.lines[candidate-1][own:]
			right, known := b.right(moved)
			if !known {
				return line, column
			}
			if right {
				line, column, rarest = candidate, to, common
				break
			}
		}
	}
	return line, column
}

// moves returns the columns to which a line may have to be moved, those of lines around it: the nearest first, the
// deeper of two.
func (b *brokenText) moves(line, at int) (columns []int) {
	own := indented(b.line(line))
	around := slices.Concat(b.columns(line), starts(b.line(at)))
	for below := line + 1; below <= min(line+3, len(b.lines)); below++ {
		around = append(around, starts(b.line(below))...)
	}
	for _, start := range starts(b.line(line)) { // what follows its dash may be what has to fit
		for _, column := range around {
			columns = append(columns, column-(start-own))
		}
	}
	slices.SortStableFunc(columns, func(x, y int) int {
		return cmp.Or(cmp.Compare(max(x-own, own-x), max(y-own, own-y)), cmp.Compare(y, x))
	})
	columns = slices.DeleteFunc(slices.Compact(columns), func(c int) bool { return c < 0 || c == own })
	return columns[:min(len(columns), 6)]
}

// commonness returns how usual it is in the file that lines begin in that column: it counts those that do, and those
// that are odd or even as it is. What is not indented at all is hardly ever wrong.
func (b *brokenText) commonness(column int) (n int) {
	if column == 0 {
		return 2 * len(b.lines)
	}
	for i := range b.lines {
		text := b.line(i + 1)
		if strings.TrimSpace(text) == "" {
			continue
		}
		if slices.Contains(starts(text), column) {
			n++
		}
		if (indented(text)-column)%2 == 0 {
			n++
		}
	}
	return n
}

package yaml

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// tab finds a tab where only spaces may stand.
func (b *brokenText) tab(at int) (fault, bool) {
	text := b.line(at)
	blank := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	switch {
	case strings.Contains(blank, "\t") && b.matters(at, strings.ReplaceAll(blank, "\t", " ")):
		return fault{at, "a tab indents this line: YAML allows only spaces"}, true
	case tabBehindSign.MatchString(text) && strings.Contains(b.said, "cannot start any token"):
		return fault{at, "a tab stands behind a dash or a colon: YAML allows only spaces there"}, true
	}
	return fault{}, false
}

// matters reports whether a line's indentation has to do with the fault: the library says something else once it is blank.
func (b *brokenText) matters(at int, blank string) bool {
	other := slices.Clone(b.lines)
	other[at-1] = blank + b.lines[at-1][len(blank):]
	known, err := b.read(other)
	return known && (err == nil || err.Error() != b.err.Error())
}

var tabBehindSign = regexp.MustCompile(`[-:?] *\t`)

// signs are the characters that mean something at the beginning of a text, and what they are.
var signs = map[byte]string{
	'*': "YAML's alias sign", '&': "YAML's anchor sign", '!': "YAML's sign of a tag", '%': "YAML's sign of a directive",
	'@': "a sign that YAML reserves", '`': "a sign that YAML reserves", '|': "YAML's sign of a text of several lines",
	'>': "YAML's sign of a text of several lines",
}

// unquotedSign is a text that begins with one of them, behind the key or the bracket that it follows.
var unquotedSign = regexp.MustCompile("(?:^|[\\s,{\\[])(?:\"?([A-Za-z_]+)\"?:[ ]+|-[ ]+|[\\[,][ ]*|^[ ]*)([*&!%@`|>][^,\\]}#\\n]*)")

// sign finds a text that begins with a sign of YAML's, where the library stumbles over one.
func (b *brokenText) sign(at int) (fault, bool) {
	text := b.line(at)
	stumbles := strings.Contains(b.said, "alphabetic or numeric") || strings.Contains(b.said, "cannot start any token") ||
		strings.Contains(b.said, "unknown anchor") || strings.Contains(b.said, "tag") ||
		strings.Contains(b.said, "'>'") || strings.Contains(b.said, "comment or line break")
	for _, found := range unquotedSign.FindAllStringSubmatch(text, -1) {
		key, value := found[1], strings.TrimSpace(found[2])
		if !stumbles || signs[value[0]] == "" {
			continue
		}
		prefix := ""
		if key != "" {
			prefix = key + ": "
		}
		quoted, shown := prefix+`"`+value+`"`, descriptors.Shown(prefix+value)
		var said string
		switch is := signs[value[0]]; {
		case strings.Contains(b.said, "unknown anchor") && value[0] != '*':
			continue
		case strings.Contains(b.said, "unknown anchor"):
			said = fmt.Sprintf("%s is YAML's alias of &%s, which nothing above it defines: define it, or put a text into quotes, ",
				shown, descriptors.Shown(value[1:]))
		case value == "*":
			said = shown + " is YAML's alias sign: put the star into quotes, "
		case len(value) == 1:
			said = fmt.Sprintf("%s is %s: put it into quotes, ", shown, is)
		default:
			said = fmt.Sprintf("%s begins with %s: put it into quotes, ", shown, is)
		}
		return fault{at, said + descriptors.Shown(quoted)}, true
	}
	return fault{}, false
}

// openQuote finds a text in quotes that does not end, or that goes on behind them.
func (b *brokenText) openQuote(at int) (fault, bool) {
	text := b.line(at)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '#' && (i == 0 || text[i-1] == ' ') {
			break
		}
		if (c != '"' && c != '\'') || !opens(text[:i]) {
			continue
		}
		end := closing(text, i)
		if end < 0 {
			return fault{at, fmt.Sprintf("a %c opens a text here that no %c closes: end it with another one", c, c)}, true
		}
		if c == '"' && strings.Contains(b.said, "escape") {
			return fault{at, `a \ between double quotes begins an escape, and this is none that YAML knows: write \\, or use single quotes`}, true
		}
		rest := strings.TrimSpace(text[end+1:])
		if rest != "" && !strings.ContainsRune(",:]}#", rune(rest[0])) {
			return fault{at, fmt.Sprintf("%s stands behind a text in quotes: put all of the text between them", descriptors.Quoted(rest))}, true
		}
		i = end
	}
	return fault{}, false
}

// opens reports whether a quote behind this begins a text: it stands where a value or a key can.
func opens(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.ContainsRune("-:,[{?", rune(before[len(before)-1]))
}

// closing returns where the quote at i is closed on its line, -1 if it is not.
func closing(text string, i int) int {
	for j := i + 1; j < len(text); j++ {
		switch {
		case text[i] == '"' && text[j] == '\\':
			j++
		case text[i] == '\'' && strings.HasPrefix(text[j:], "''"):
			j++
		case text[j] == text[i]:
			return j
		}
	}
	return -1
}

// dash finds a dash without the space that makes it one.
func (b *brokenText) dash(at int) (fault, bool) {
	for _, line := range []int{at, b.contentBefore(at)} {
		if found := dashed.FindStringSubmatch(b.line(line)); found != nil && isKey(found[1]) {
			return fault{line, "a dash needs a space behind it: write - " + found[1] + ":"}, true
		}
	}
	return fault{}, false
}

var dashed = regexp.MustCompile(`^[ -]*-([a-z_]+):`)

// isKey reports whether a kind of mapping has a key of that name.
func isKey(name string) bool {
	return slices.ContainsFunc([]*kind{inFile, inDescriptor, inRateLimit}, func(in *kind) bool { return slices.Contains(in.keys, name) })
}

var (
	keyWithoutColon = regexp.MustCompile(`^[ -]*([a-z_]+)(?:[ ]+([^:\s].*))?$`)
	colonWithout    = regexp.MustCompile(`^[ -]*([a-z_]+):([^\s].*)$`)
	twoColons       = regexp.MustCompile(`^[ -]*([a-z_]+): +([^"'\[{|>&*].*: .*?)(?: +#.*)?$`)
)

// colon finds a key without a colon, a colon without its space, and a colon within a text.
func (b *brokenText) colon(at int) (fault, bool) {
	for _, line := range []int{at, b.contentBefore(at)} {
		text := b.line(line)
		if found := colonWithout.FindStringSubmatch(text); found != nil && isKey(found[1]) {
			return fault{line, descriptors.Shown(fmt.Sprintf("a colon needs a space behind it: write %s: %s", found[1], found[2]))}, true
		}
		if found := keyWithoutColon.FindStringSubmatch(text); found != nil && isKey(found[1]) {
			return fault{line, descriptors.Shown(strings.TrimSpace(
				fmt.Sprintf("a colon is missing behind %s: write %s: %s", found[1], found[1], found[2])))}, true
		}
	}
	if found := twoColons.FindStringSubmatch(b.line(at)); found != nil && strings.Contains(b.said, "mapping values") {
		return fault{at, fmt.Sprintf(`%s holds a colon and a space: put the text into quotes, %s`, found[1],
			descriptors.Shown(found[1]+`: "`+found[2]+`"`))}, true
	}
	return fault{}, false
}

// bracket finds braces and brackets that do not go in pairs, and a text that begins with one.
func (b *brokenText) bracket(at int) (fault, bool) {
	text := b.line(at)
	open, more := pairs(text)
	switch {
	case !strings.Contains(b.said, "expected") && !strings.Contains(b.said, "cannot start"):
		return fault{}, false
	case more != 0:
		return fault{at, fmt.Sprintf("a %c closes what nothing opens: leave it out", more)}, true
	case len(open) > 0:
		return fault{at, fmt.Sprintf("the %c that this line opens is not closed, or a comma is missing between what stands in it%s",
			open[len(open)-1], b.seen(at))}, true
	}
	if found := bracketed.FindStringSubmatch(text); found != nil {
		return fault{at, fmt.Sprintf("%s begins with %s, which begins a mapping or a list: put the text into quotes, %s",
			descriptors.Shown(found[1]+": "+found[2]), found[2][:1], descriptors.Shown(found[1]+`: "`+found[2]+`"`))}, true
	}
	if strings.Contains(b.said, "expected ','") {
		return fault{at, "a comma is missing between what stands in braces or brackets" + b.seen(at)}, true
	}
	return fault{}, false
}

// seen says where the library gave up, if that is not where the fault is told.
func (b *brokenText) seen(at int) string {
	if b.last <= at {
		return ""
	}
	return fmt.Sprintf(" (seen at line %d)", b.last)
}

var bracketed = regexp.MustCompile(`^[ -]*([a-z_]+): +((?:\{[^{}]*\}|\[[^\[\]]*\])[^\s#,].*?)(?: +#.*)?$`)

// pairs returns the brackets that a line opens and does not close, and one that it closes without one, 0 for none.
// Those within a text that does not begin with one are nothing.
func pairs(text string) (open []byte, more byte) {
	counts := strings.HasPrefix(strings.TrimLeft(text, " "), "}") || strings.HasPrefix(strings.TrimLeft(text, " "), "]")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '#' && (i == 0 || text[i-1] == ' '):
			return open, 0
		case (c == '"' || c == '\'') && opens(text[:i]):
			if i = closing(text, i); i < 0 {
				return open, 0
			}
		case (c == '{' || c == '[') && (opens(text[:i]) || len(open) > 0):
			open, counts = append(open, c), true
		case counts && (c == '}' || c == ']'):
			if len(open) == 0 {
				return nil, c
			}
			open = open[:len(open)-1]
		}
	}
	return open, 0
}

// indent finds a line that is indented as nothing around it is.
func (b *brokenText) indent(at int) (fault, bool) {
	for _, said := range []string{"did not find expected key", "mapping values are not allowed", "'-' indicator",
		"could not find expected ':'"} {
		if !strings.Contains(b.said, said) {
			continue
		}
		line, column := b.misplacedLine(at)
		if line == at && strings.HasPrefix(b.line(at), "- ") {
			return fault{at, "an item of a list stands here without a key above it: write descriptors: before the first one"}, true
		}
		if columns := b.columns(at); line == 0 {
			own := indented(b.line(at))
			return fault{at, fmt.Sprintf("this line is indented by %s, which fits nothing above it: there all begins behind %s",
				spaces(own), listed(columns))}, len(columns) > 0 && !slices.Contains(columns, own)
		}
		return fault{line, fmt.Sprintf("this line is indented by %s, which does not fit the lines around it: %s would",
			spaces(indented(b.line(line))), spaces(column))}, true
	}
	return fault{}, false
}

func spaces(n int) string {
	if n == 1 {
		return "1 space"
	}
	return fmt.Sprintf("%d spaces", n)
}

// listed returns columns as numbers of spaces.
func listed(columns []int) string {
	all := make([]string, len(columns))
	for i, column := range columns {
		all[i] = strconv.Itoa(column)
	}
	return strings.Join(all, ", ") + " spaces"
}

package yaml

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// descriptorFile matches descriptor files, valid or not. Other files may have secrets, which no message may repeat.
var descriptorFile = regexp.MustCompile(`(?m)^\W*(domain|descriptors)(["':\s]|$)`)

// findFault returns the line of a syntax error, 0 if unknown, and a message with the remedy. libraryLine and err are
// the line and the error of the YAML library.
func findFault(data []byte, libraryLine int, err error) (line int, text string) {
	if !descriptorFile.Match(data) {
		return libraryLine, "not valid YAML, and no line begins with domain: begin a descriptor file with domain: and its name, and " +
			"keep all others elsewhere"
	}
	lines := strings.SplitAfter(string(data), "\n")
	if flowError.MatchString(err.Error()) {
		if line, text := unbalanced(lines); line > 0 {
			return line, text
		}
	}
	first := faultyLine(lines, min(libraryLine, len(lines))) // the library also counts a \r alone as the end of a line
	for _, h := range hints {
		for _, at := range []int{first, contentBefore(lines, first)} {
			if h.errorPattern == nesting && at != first {
				continue // nearly all lines match
			}
			if text := h.text(lines, at, err.Error()); text != "" {
				return at, text
			}
		}
	}
	return first, err.Error()
}

// faultyLine returns the line after the longest valid prefix of a file. The library often returns the line at which the
// block around an error begins; faultyLine returns that line if the search takes too long.
func faultyLine(lines []string, libraryLine int) int {
	readers := make([]io.Reader, len(lines)) // one for each line, to see how far the library reads
	for i, line := range lines {
		readers[i] = strings.NewReader(line)
	}
	_ = decode(io.MultiReader(readers...))
	first, size := 0, 0
	for ; first < len(lines) && readers[first].(*strings.Reader).Len() < len(lines[first]); first++ {
		size += len(lines[first])
	}
	budget := minReread + maxRereads*size
	for ; first > 0; first-- {
		if budget -= size; budget < 0 {
			return libraryLine
		}
		size -= len(lines[first-1])
		if decode(strings.NewReader(strings.Join(lines[:first-1], ""))) == nil {
			break
		}
	}
	return max(first, libraryLine)
}

// minReread, in bytes, and maxRereads, in times the file's size, bound together how much text faultyLine reads again.
const minReread, maxRereads = 256 << 10, 4

func decode(r io.Reader) error {
	var n yaml.Node
	if err := yaml.NewDecoder(r).Decode(&n); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// contentBefore returns the last line before at that is neither empty nor a comment, 0 for none.
func contentBefore(lines []string, at int) int {
	for at--; at > 0; at-- {
		if text := strings.TrimSpace(lines[at-1]); text != "" && text[0] != '#' {
			return at
		}
	}
	return 0
}

// hint is a common mistake, which is recognized by the library's error and the text of the line.
type hint struct {
	errorPattern string // regular expression for the error; "" for any error
	linePattern  string // regular expression for the line; KEY stands for any key of a file
	remedy       string // $1 and $2 are the groups of linePattern
}

// text returns the remedy for a line, "" if the hint does not match.
func (h *hint) text(lines []string, at int, message string) string {
	if at < 1 || at > len(lines) || !regexp.MustCompile(h.errorPattern).MatchString(message) {
		return ""
	}
	pattern := regexp.MustCompile(strings.ReplaceAll(h.linePattern, "KEY", "("+anyKey+")"))
	found := append(pattern.FindStringSubmatch(strings.TrimRight(lines[at-1], "\r\n")), "", "")
	if len(found) == 2 {
		return ""
	}
	return strings.NewReplacer("$1", descriptors.Abbreviate(found[1]), "$2", descriptors.Abbreviate(found[2])).Replace(h.remedy)
}

// anyKey is an alternation of all keys of a file.
var anyKey = strings.Join(append(append(append([]string{"name"}, inFile.keys...), inDescriptor.keys...), inRateLimit.keys...), "|")

const (
	// starts matches the text before a value: nothing, a bracket, a dash or a key.
	starts = `(?:^\s*|[\[{,] *|-\s+)(\w+:\s+|"\w+":\s*)?`
	// bareText matches the rest of a text without quotes.
	bareText = `[^,\]}#]*[^,\]}# ]`
	quoted   = `"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'`
	noToken  = `alphabetic or numeric|cannot start any token|tag|'>'|comment or line break`
	nesting  = `did not find expected key|mapping values|'-' indicator|expected ':'`
)

// flowError matches the library's errors for unbalanced brackets.
var flowError = regexp.MustCompile("expected ','|expected node|end of stream|expected key|cannot start any token")

// hints are tried in this order.
var hints = []hint{
	{"unknown anchor", starts + `\*(` + bareText + `)`,
		`$1*$2 is YAML's alias of &$2, which is not defined above: define it, or put a text into quotes, $1"*$2"`},
	{noToken, starts + `\*(?:[ ,}\]]|$)`, `$1* is YAML's alias sign: put the star into quotes, $1"*"`},
	{noToken, starts + `([*&!%@|>` + "`]" + bareText + `)`,
		`$1$2 begins with a sign of YAML's: put it into quotes, $1"$2"`},
	{"", `^ *\t`, "a tab indents this line: YAML allows only spaces"},
	{"cannot start any token", `[-:?] *\t`, "a tab follows a dash or a colon: YAML allows only spaces there"},
	{"escape", `"`, `a \ between double quotes begins an escape, and this is none that YAML knows: write \\, or use single quotes`},
	{"", `(?:^|[-:,\[{?]) *(["'])(?:[^"'\\]|\\.)*$`, "a $1 opens a text here that no $1 closes: end it with another one"},
	{"", `[-:,\[{?] *(?:` + quoted + `) *([^\s,:\]}#].*)$`, `"$1" follows a text in quotes: put all of the text between the quotes`},
	{"", `^[ -]*-KEY:`, "a dash needs a space after it: write - $1:"},
	{"", `^[ -]*KEY:([^\s].*)$`, "a colon needs a space after it: write $1: $2"},
	{"", `^[ -]*KEY( +[^:\s].*)?$`, "a colon is missing after $1: write $1:$2"},
	{"mapping values", `^[ -]*(\w+): +(\w+: [^{]*\})`, "a { is missing: write $1: {$2"},
	{"mapping values", `^[ -]*(\w+): +([^"'\[{|>&*].*: .*?)(?: +#.*)?$`,
		`$1 holds a colon and a space: put the text into quotes, $1: "$2"`},
	{"expected|cannot start", `^[^{}\[\]]*(?:\{[^{}]*\}|\[[^\[\]]*\])*\s*([}\]])`, "a $1 closes what nothing opens: leave it out"},
	{"expected|cannot start", `(\w+): +((\{[^{}]*\}|\[[^\[\]]*\])[^\s#,}\]].*?)(?: +#.*)?$`,
		`$1: $2 begins with a bracket, which begins a mapping or a list: put the text into quotes, $1: "$2"`},
	{`expected ','|expected node|end of stream`, `[{\[,]`,
		"a } or ] is missing, or a comma between what stands in them"},
	{nesting, `^- `, "an item of a list stands here without a key above it: write descriptors: before the first one"},
	{nesting, `^( *)`, "the indentation of this line does not fit the lines around it: indent it as those beside it"},
}

package yaml

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// injections put one fault into a line; "" says that the line has no place for it.
var injections = map[string]func(line string) string{
	"a tab before the line": func(line string) string {
		return "\t" + strings.TrimLeft(line, " ")
	},
	"a tab behind its spaces": func(line string) string {
		if !strings.HasPrefix(line, " ") {
			return ""
		}
		return line[:indented(line)] + "\t" + line[indented(line):]
	},
	"a star without quotes": func(line string) string {
		if found := lastValue.FindStringSubmatchIndex(line); found != nil {
			return line[:found[2]] + "*" + line[found[3]:]
		}
		return ""
	},
	"one space too many": func(line string) string { return " " + line },
	"one space too few": func(line string) string {
		if !strings.HasPrefix(line, " ") {
			return ""
		}
		return line[1:]
	},
}

var lastValue = regexp.MustCompile(`[a-z_]: ([a-zA-Z0-9_]+)(?: *[,}#].*)?$`)

// Whoever made one slip is sent to its line, not to the block around it.
func TestAFaultIsToldAtItsLine(t *testing.T) {
	told := make(map[string]int)
	for _, f := range schemaFiles(t) {
		if _, problems := Parse([]File{f}, Options{}); problems.Err() != nil || len(f.Data) > 20_000 {
			continue
		}
		lines := strings.SplitAfter(string(f.Data), "\n")
		for name, inject := range injections {
			for i, line := range lines {
				if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#") {
					continue
				}
				faulty := inject(strings.TrimRight(line, "\r\n"))
				if faulty == "" {
					continue
				}
				text := strings.Join(lines[:i], "") + faulty + "\n" + strings.Join(lines[i+1:], "")
				err := decode(strings.NewReader(text))
				if err == nil {
					continue // it means something else, but it is YAML
				}
				told[name]++
				if got := findFault([]byte(text), err); got.line != i+1 {
					t.Errorf("%s: %s, line %d, is told as %v\n%s", f.Name, name, i+1, got, numbered(text))
				}
			}
		}
	}
	for name := range injections {
		if told[name] < 50 {
			t.Errorf("%s was told %d times: this test proves little", name, told[name])
		}
	}
}

func numbered(text string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		fmt.Fprintf(&b, "%4d %s\n", i+1, line)
	}
	return b.String()
}

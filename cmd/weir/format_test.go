package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/file"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const formatDocument = "../../descriptors/FORMAT.md"

// formatExample is an example of the document: files, then blocks with weir's results for them.
type formatExample struct {
	line  int // of the first file
	files []yaml.File
	shown []string
}

// formatExamples parses the examples of the document. A block of YAML is a file: shop.yaml, or the name in the comment on
// its first line. A block that begins with a list item gets the head from the document's text.
func formatExamples(text string) (all []formatExample) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		kind, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			continue
		}
		begin := i + 1
		for i++; lines[i] != "```"; i++ {
		}
		block := strings.Join(lines[begin:i], "\n") + "\n"
		last := len(all) - 1
		switch {
		case kind == "text":
			all[last].shown = append(all[last].shown, block)
			continue
		case last < 0 || len(all[last].shown) > 0:
			all = append(all, formatExample{line: begin + 1})
			last++
		}
		name := "shop.yaml"
		if named := regexp.MustCompile(`^# (\S+\.yaml)\n`).FindStringSubmatch(block); named != nil {
			name = named[1]
		}
		if strings.HasPrefix(block, "-") {
			block = "domain: shop\ndescriptors:\n" + block
		}
		all[last].files = append(all[last].files, yaml.File{Name: name, Data: []byte(block)})
	}
	return all
}

// questions returns the requests or commands of a block, without the answers that it shows.
func questions(shown string) (all []string) {
	for line := range strings.Lines(shown) {
		question, _, asks := strings.Cut(line, "→")
		if asks && !strings.HasPrefix(line, " ") || strings.HasPrefix(line, "$ ") {
			all = append(all, strings.TrimSpace(question))
		}
	}
	return all
}

// made returns weir's actual results for the files, in the form of a block.
func (e *formatExample) made(t *testing.T, questions []string) string {
	t.Helper()
	if len(questions) == 0 {
		t.Fatal("a block neither runs a command ($) nor asks a request (→)")
	}
	t.Chdir(t.TempDir())
	for _, f := range e.files {
		if err := os.WriteFile(f.Name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	isCommand := func(q string) bool { return strings.HasPrefix(q, "$ ") }
	requests := slices.DeleteFunc(slices.Clone(questions), isCommand)
	var out strings.Builder
	if len(requests) > 0 {
		out.WriteString(e.answers(t, requests))
	}
	for _, command := range questions[len(requests):] {
		out.WriteString(command + "\n")
		command, word, piped := strings.Cut(strings.TrimPrefix(command, "$ "), " | grep ")
		for line := range strings.Lines(checked(t, command)) {
			if !piped || strings.Contains(line, word) {
				out.WriteString(line)
			}
		}
	}
	return out.String()
}

// checked returns the output of weir check, for a shell command that may begin with variables.
func checked(t *testing.T, command string) string {
	t.Helper()
	variables, arguments, found := strings.Cut(" "+command, " weir check ")
	if !found {
		t.Fatalf("%s: want a command weir check", command)
	}
	check := weirCommand(append([]string{"check"}, strings.Fields(arguments)...)...)
	check.Env = append(check.Env, strings.Fields(variables)...)
	out, _ := check.CombinedOutput() // a file may be meant to be wrong
	return string(out)
}

// answers sends requests to a limiter, one after the other, and returns each with its answer.
func (e *formatExample) answers(t *testing.T, questions []string) string {
	t.Helper()
	config, problems, err := file.Load(".", yaml.Options{})
	if err := errors.Join(err, problems.Err()); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	l := limit.New(fixture.Memory(t, func() time.Time { return now }), limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0))
	l.Apply(config)
	width := 0
	for _, question := range questions {
		width = max(width, utf8.RuneCountInString(question))
	}
	var out strings.Builder
	for _, question := range questions {
		request := question
		if clock, rest, _ := strings.Cut(question, " "); strings.Count(clock, ":") == 2 {
			if now, err = time.Parse(time.DateTime, "2026-11-21 "+clock); err != nil {
				t.Fatal(err)
			}
			request = rest
		}
		fmt.Fprintf(&out, "%-*s  → %s\n", width, question, answer(t, l, request))
	}
	return out.String()
}

// answer sends a request such as "3× user=ann + path=/ (0 hits)", and returns the answer, the last one of several.
func answer(t *testing.T, l *limit.Limiter, question string) string {
	t.Helper()
	times := 1
	if count, rest, many := strings.Cut(question, "× "); many {
		var err error
		if times, err = strconv.Atoi(count); err != nil {
			t.Fatal(err)
		}
		question = rest
	}
	c := &limit.Call{}
	for range times {
		c = &limit.Call{Request: limit.Request{Domain: "shop"}}
		for part := range strings.SplitSeq(question, " + ") {
			text, own, hasOwn := strings.Cut(strings.TrimSuffix(part, " hits)"), " (")
			d, err := descriptors.ParseDescriptor(text)
			if err != nil {
				t.Fatal(err)
			}
			n := uint64(0)
			if hasOwn {
				if n, err = strconv.ParseUint(own, 10, 64); err != nil {
					t.Fatal(err)
				}
			}
			c.Descriptors = append(c.Descriptors, limit.Descriptor{Entries: d, Hits: n, HasHits: hasOwn})
		}
		if err := l.Decide(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return verdictLine(c)
}

// verdictLine formats a verdict on one line.
func verdictLine(c *limit.Call) string {
	var parts []string
	for i := range c.Statuses {
		s := &c.Statuses[i]
		text := "no limit"
		switch {
		case s.Outcome == limit.Unlimited:
			text = "unlimited"
		case s.Limit != nil:
			text = s.Limit.String()
			if s.Limit.Name != "" {
				text += " " + s.Limit.Name
			}
			text += fmt.Sprintf(", %d left", s.Remaining)
		}
		if s.Outcome == limit.Over && len(c.Statuses) > 1 {
			text += ", over"
		}
		if s.Metadata != nil && s.Outcome != limit.Over {
			metadata, _ := json.Marshal(s.Metadata) // it came from YAML, so that it can be marshalled
			text += " " + string(metadata)
		}
		parts = append(parts, text)
	}
	verdict := "OK    "
	if c.Result == limit.OverLimit {
		verdict = "OVER  "
	}
	out := verdict + strings.Join(parts, " + ")
	if c.Message != "" {
		out += fmt.Sprintf("  %q", c.Message)
	}
	return out
}

// TestFormatDocumentExamplesHold runs the examples of FORMAT.md.
func TestFormatDocumentExamplesHold(t *testing.T) {
	text, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range formatExamples(string(text)) {
		t.Run(fmt.Sprint("line ", e.line), func(t *testing.T) {
			if len(e.shown) == 0 {
				t.Fatal("nothing shows what weir makes of this file: an example that is not tested soon lies")
			}
			for _, shown := range e.shown {
				if got := e.made(t, questions(shown)); got != shown {
					t.Errorf("FORMAT.md shows\n%s\nbut weir makes of it\n%s", shown, got)
				}
			}
		})
	}
}

// TestFormatDocumentNamesEveryField compares the document's table with the output.
func TestFormatDocumentNamesEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(formatDocument)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Check it in CI")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(goodShop+"      - {key: path, valeu: 1}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, args := range [][]string{{"check", dir, "--json"}, {"check", "../../k8s/base/config", "--json", "--explain", "user=ann + user=bob"}} {
		out, _ := weirCommand(args...).Output()
		if !json.Valid(out) {
			t.Fatalf("no JSON: %s", out)
		}
		for _, found := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(out), -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("the document does not name the field %s", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d fields were seen: %v", len(names), names)
	}
}

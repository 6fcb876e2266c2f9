package charttest

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// A section is what the runbook says of one alert.
type section struct {
	commands []command
	queries  []string // PromQL
}

// A command is what the runbook has people paste, and what it says of the answer.
type command struct {
	line   string
	prints []string // each a line of what it prints; … stands for anything
}

var fencedBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")

// readRunbook reads the sections, by their headings.
func readRunbook(t *testing.T) map[string]section {
	t.Helper()
	sections := make(map[string]section)
	for _, part := range strings.Split(readText(t, filepath.Join(root, "cmd", "weir", "RUNBOOK.md")), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		sections[heading] = readSection(t, text)
	}
	return sections
}

func readSection(t *testing.T, text string) (s section) {
	t.Helper()
	for _, block := range fencedBlock.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "promql":
			s.queries = append(s.queries, block[2])
		case "sh":
			for line := range strings.Lines(block[2]) {
				line = strings.TrimSuffix(line, "\n")
				if prints, is := strings.CutPrefix(line, "#> "); is {
					last := &s.commands[len(s.commands)-1]
					last.prints = append(last.prints, prints)
				} else {
					s.commands = append(s.commands, command{line: line})
				}
			}
		default:
			t.Fatalf("the runbook has a block of %q, which no test reads", block[1])
		}
	}
	return s
}

// missingIn says what a command should have printed and has not, or nothing.
func (c command) missingIn(out string) string {
	for _, want := range c.prints {
		line := regexp.MustCompile("(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		if !line.MatchString(out) {
			return fmt.Sprintf("it should print %q, but prints\n%s", want, out)
		}
	}
	return ""
}

var (
	weirLine    = regexp.MustCompile(`\bweir ([a-z][^|;]*)`)
	metricsLine = regexp.MustCompile(`^metrics '?([^' ]+)`)
)

// Each command of weir in the runbook is one that weir has, with these flags, and each metric that is looked for is one that
// weir shows.
func TestWeirKnowsWhatTheRunbookAsks(t *testing.T) {
	t.Parallel()
	shown := strings.Join(slices.Collect(maps.Keys(metricsDocument(t))), "\n")
	commands, metrics := 0, 0
	for heading, section := range readRunbook(t) {
		for _, c := range section.commands {
			line := strings.NewReplacer(` "$@"`, "", `"$TOKEN"`, process.Weir(t)).Replace(c.line) // any file
			line = regexp.MustCompile(`^ask `).ReplaceAllString(line, "weir call ")
			for _, m := range weirLine.FindAllStringSubmatch(line, -1) {
				commands++
				if out, code := process.Command(t, nil, process.Weir(t), append(strings.Fields(m[1]), "--help")...); code != 0 {
					t.Errorf("RUNBOOK.md, %s: %s\n%s", heading, c.line, out)
				}
			}
			for _, m := range metricsLine.FindAllStringSubmatch(line, -1) {
				metrics++
				if !regexp.MustCompile("(?m)^weir_(" + m[1] + ")").MatchString(shown) {
					t.Errorf("RUNBOOK.md, %s: %s finds nothing", heading, c.line)
				}
			}
		}
	}
	if commands < 14 || metrics < 15 {
		t.Errorf("the runbook has %d commands of weir, and looks for %d metrics: this test reads it wrongly", commands, metrics)
	}
}

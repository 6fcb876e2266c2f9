package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// helpCommand is weir help COMMAND, the same as weir COMMAND --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command, as in weir help counters top."`
}

func (c *helpCommand) Run(parser *kong.Kong) error {
	_, err := parser.Parse(append(c.Command, "--help")) // exits, unless there is no such command
	return err
}

//go:embed ENVIRONMENT.md
var environmentDocument string

var (
	documentLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	helpLine     = regexp.MustCompile(`(.{1,88})(?:\s+|$)`)
)

// environmentHelp returns the variables of ENVIRONMENT.md by group, as plain text that kong does not wrap.
func environmentHelp() string {
	var b strings.Builder
	document, _, _ := strings.Cut(environmentDocument, "\n## In the place of")
	document = strings.ReplaceAll(documentLink.ReplaceAllString(document, "$1"), "`", "")
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		if title, is := strings.CutPrefix(line, "## "); is {
			fmt.Fprintf(&b, "\n%s\n\n", title)
		}
		cells := strings.SplitN(strings.Trim(line, "| "), " | ", 3)
		if len(cells) == 3 && strings.ToUpper(cells[0]) == cells[0] {
			b.WriteString(helpLine.ReplaceAllString(fmt.Sprintf("%s (%s)", cells[0], cells[1]), "    $1\n"))
			b.WriteString(helpLine.ReplaceAllString(cells[2], "        $1\n"))
		}
	}
	return b.String()
}

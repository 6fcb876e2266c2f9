package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/cmd/weir/settings"
)

// An operator must find every variable that weir reads, with its default.
func TestTheDocumentListsEveryVariable(t *testing.T) {
	text, err := os.ReadFile("ENVIRONMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // variable → its row
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			for _, name := range strings.Split(strings.Split(line, "|")[1], ",") {
				rows[strings.Trim(name, " `")] = line
			}
		}
	}
	var names strings.Builder
	if err := envconfig.Usagef("", new(settings.Settings), &names, "{{range .}}{{usage_key .}} {{usage_default .}}\n{{end}}"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(names.String()) {
		name, byDefault, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		row, listed := rows[name]
		switch {
		case !listed:
			t.Errorf("ENVIRONMENT.md does not list %s", name)
		case !strings.Contains(row, "`"+byDefault+"`") && byDefault != "":
			t.Errorf("ENVIRONMENT.md gives another default for %s than %q: %s", name, byDefault, row)
		}
	}
}

package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/config"
)

// ratelimitVariables are those that envoyproxy/ratelimit reads, at f2fb1577.
func ratelimitVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "ratelimit-variables.txt"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(text))
	if len(names) != 114 {
		t.Fatalf("there are %d of them, and should be 114", len(names))
	}
	return names
}

// readVariables are those that weir reads, and their defaults.
func readVariables(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	var walk func(of reflect.Type, prefix string)
	walk = func(of reflect.Type, prefix string) {
		for i := range of.NumField() {
			name, options, _ := strings.Cut(of.Field(i).Tag.Get("env"), ",")
			switch _, byDefault, _ := strings.Cut(options, "default="); {
			case of.Field(i).Type.Kind() == reflect.Struct:
				walk(of.Field(i).Type, prefix+strings.TrimPrefix(options, "prefix="))
			case name != "":
				all[prefix+name] = byDefault
			}
		}
	}
	walk(reflect.TypeFor[config.Variables](), "")
	return all
}

func environmentDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("ENVIRONMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An operator must find every variable that weir reads, with its default.
func TestTheDocumentListsEveryVariable(t *testing.T) {
	rows := make(map[string]string) // variable → its row
	for line := range strings.Lines(environmentDocument(t)) {
		if strings.HasPrefix(line, "| `") {
			for _, name := range strings.Split(strings.Split(line, "|")[1], ",") {
				rows[strings.Trim(name, " `")] = line
			}
		}
	}
	for name, byDefault := range readVariables(t) {
		row, listed := rows[name]
		switch {
		case !listed:
			t.Errorf("ENVIRONMENT.md does not list %s", name)
		case !strings.Contains(row, "`"+byDefault+"`") && byDefault != "":
			t.Errorf("ENVIRONMENT.md gives another default for %s than %q: %s", name, byDefault, row)
		}
	}
}

// verdicts are what ENVIRONMENT.md says of variables of envoyproxy/ratelimit: those that it has, and those of later
// versions.
func verdicts(t *testing.T) (now, later map[string]string) {
	t.Helper()
	first, second, found := strings.Cut(environmentDocument(t), "read by later versions")
	if !found {
		t.Fatal("ENVIRONMENT.md has no table of the variables of later versions")
	}
	read := func(text string) map[string]string {
		said := make(map[string]string)
		for line := range strings.Lines(text) {
			cells := strings.Split(line, "|")
			if !strings.HasPrefix(line, "| **") {
				continue
			}
			verdict := strings.Trim(cells[1], " *")
			if !slices.Contains([]string{"same", "better", "no effect", "not carried"}, verdict) {
				t.Errorf("%q is no verdict: %s", verdict, line)
			}
			if verdict != "same" && strings.TrimSpace(cells[3]) == "" {
				t.Errorf("the reason is missing: %s", line)
			}
			for _, name := range strings.Split(cells[2], ",") {
				name = strings.Trim(name, " `")
				if said[name] != "" {
					t.Errorf("%s stands in the table twice", name)
				}
				said[name] = verdict
			}
		}
		return said
	}
	return read(first), read(second)
}

// Whoever replaces envoyproxy/ratelimit must find what becomes of each variable, and it must be so.
func TestEachVariableOfRatelimitHasItsVerdict(t *testing.T) {
	known, reads := ratelimitVariables(t), readVariables(t)
	now, later := verdicts(t)
	for _, name := range known {
		if now[name] == "" {
			t.Errorf("ENVIRONMENT.md does not say what becomes of %s", name)
		}
	}
	for name := range now {
		if !slices.Contains(known, name) {
			t.Errorf("ENVIRONMENT.md has %s among the variables of envoyproxy/ratelimit, which does not read it", name)
		}
	}
	for _, table := range []map[string]string{now, later} {
		for name, verdict := range table {
			switch _, carried := reads[name]; {
			case (verdict == "not carried" || verdict == "no effect") && carried:
				t.Errorf("ENVIRONMENT.md says that %s is %s, and weir reads it", name, verdict)
			case verdict != "not carried" && verdict != "no effect" && !carried:
				t.Errorf("ENVIRONMENT.md says that %s is %s, and weir does not read it", name, verdict)
			}
		}
	}
}

func TestWhatIsNotCarriedIsToldAtTheStart(t *testing.T) {
	now, later := verdicts(t)
	for _, as := range []string{"weir", "ratelimit"} {
		set, err := settingsAs(as, config.Environment{})
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range []map[string]string{now, later} {
			for name, verdict := range table {
				var log strings.Builder
				set.WarnOfIneffective(config.Environment{name: "1"}, slog.New(slog.NewTextHandler(&log, nil)))
				if told := strings.Contains(log.String(), name+" ("); verdict == "not carried" && !told {
					t.Errorf("started as %s, weir does not tell that %s has no effect", as, name)
				}
			}
		}
	}
}

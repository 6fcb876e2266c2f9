package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// ratelimitVariables are those that envoyproxy/ratelimit reads, at f2fb1577, with SANITIZE_DESCRIPTOR_METRIC_DOTS, which came then.
func ratelimitVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "ratelimit-variables.txt"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(text))
	if len(names) != 115 {
		t.Fatalf("there are %d of them, and should be 115", len(names))
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
	walk(reflect.TypeFor[Variables](), "")
	return all
}

func environmentDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../ENVIRONMENT.md")
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

// differences are what ENVIRONMENT.md says of variables of envoyproxy/ratelimit that are not the same here. MEMCACHE_*
// there stands for all that begin so.
func differences(t *testing.T) map[string]string {
	t.Helper()
	said := make(map[string]string)
	for line := range strings.Lines(environmentDocument(t)) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("the reason is missing: %s", line)
		}
		for _, cell := range strings.Split(cells[2], ",") {
			for _, name := range meant(t, strings.Trim(cell, " `")) {
				if said[name] != "" {
					t.Errorf("%s stands in the table twice", name)
				}
				said[name] = strings.Trim(cells[1], " *")
			}
		}
	}
	return said
}

// meant returns a name, or all of envoyproxy/ratelimit's that begin as one that ends in a star.
func meant(t *testing.T, name string) []string {
	t.Helper()
	prefix, isPattern := strings.CutSuffix(name, "*")
	if !isPattern {
		return []string{name}
	}
	names := slices.DeleteFunc(ratelimitVariables(t), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(names) == 0 {
		t.Errorf("no variable of envoyproxy/ratelimit is a %s", name)
	}
	return names
}

// Whoever replaces envoyproxy/ratelimit must find what becomes of each variable, and it must be so.
func TestEachVariableOfRatelimitHasItsVerdict(t *testing.T) {
	reads, said := readVariables(t), differences(t)
	for _, name := range ratelimitVariables(t) {
		if _, read := reads[name]; !read && said[name] == "" {
			t.Errorf("ENVIRONMENT.md does not say what becomes of %s, which weir does not read", name)
		}
	}
	for name, verdict := range said {
		if _, read := reads[name]; read != (verdict == "differs") {
			t.Errorf("ENVIRONMENT.md says that %s is %s; that weir reads it is %v", name, verdict, read)
		}
	}
}

func TestWhatIsNotCarriedIsToldAtTheStart(t *testing.T) {
	told := func(e Environment) string {
		var log strings.Builder
		e.WarnOfIneffective(slog.New(slog.NewTextHandler(&log, nil)))
		return log.String()
	}
	for name, verdict := range differences(t) {
		got := told(Environment{name: "hunter2"})
		if verdict == "not carried" && !strings.Contains(got, name+" (") || strings.Contains(got, "hunter2") {
			t.Errorf("%s is %s, and weir tells %q; want what has no effect told, and no value", name, verdict, got)
		}
	}
	const two = "OTEL_EXPORTER_OTLP_ENDPOINT, TRACING_ENABLED (weir sends no traces)"
	if got := told(Of("TRACING_ENABLED=1", "OTEL_EXPORTER_OTLP_ENDPOINT=o:4318")); !strings.Contains(got, `"`+two+`"`) {
		t.Errorf("of two that are alike weir tells %q, want %q", got, two)
	}
	off := Of("TRACING_ENABLED=False", "REDIS_PIPELINE_LIMIT=0", "REDIS_URL=r:1", "REDIS_SERVICE_HOST=r", "HOME=/")
	if got := told(off); got != "" {
		t.Errorf("of what is off, in force, or another's, weir tells %q; want nothing", got)
	}
}

package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// An operator must find every variable that weir reads, with its default.
func TestReadmeListsEveryVariable(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
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
	fields := slices.Collect(reflect.TypeFor[settings]().Fields())
	for _, field := range slices.AppendSeq(fields, reflect.TypeFor[redisSettings]().Fields()) {
		name, byDefault := field.Tag.Get("envconfig"), field.Tag.Get("default")
		row, listed := rows[name]
		switch {
		case name == "": // the settings of a part
		case !listed:
			t.Errorf("README.md does not list %s", name)
		case !strings.Contains(row, "`"+byDefault+"`") && byDefault != "":
			t.Errorf("README.md gives another default for %s than %q: %s", name, byDefault, row)
		}
	}
}

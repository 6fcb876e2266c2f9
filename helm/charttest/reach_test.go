package charttest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What values say stands where it belongs, and what they leave open is as the program that weir is started as has it.
func TestValuesReachTheirObjects(t *testing.T) {
	t.Parallel()
	var table struct {
		Paths, Sets any // which rows refer to

		Rows []struct {
			Promise, Build, Path, Has string

			HasNot string `yaml:"hasNot"`
			Values map[string]any
		}
	}
	readData(t, "reach.yaml", &table)
	for _, row := range table.Rows {
		var objects []Object
		var is string
		name, path, _ := strings.Cut(row.Path, " ")
		switch {
		case row.Build != "":
			objects = build(t, filepath.Join("testdata", row.Build))
		case name == "Deployment/cart":
			objects = renderBeside(t, map[string]any{"weir": row.Values}).Objects
		case name == "notes":
			is = render(t, "weir", row.Values).Notes
		default:
			is, objects = "null", render(t, "weir", row.Values).Objects
		}
		wants := []string{row.Has}
		for _, o := range objects {
			if o.Kind()+"/"+o.Name() != name {
				continue
			}
			at := o.At(strings.Fields(path)...)
			is = string(toJSON(t, at))
			if variables, _ := at.([]any); strings.HasSuffix(path, " env") { // NAME=value, each in a line
				is, wants = "\n", strings.Fields(row.Has)
				for i, want := range wants {
					wants[i] = "\n" + want + "\n"
				}
				for _, v := range variables {
					is += fmt.Sprint(reach(v, "name"), "=", reach(v, "value"), "\n")
				}
			}
		}
		for _, has := range wants {
			if !strings.Contains(is, has) || row.HasNot != "" && strings.Contains(is, row.HasNot) {
				t.Errorf("%s: %s is %s, want %s in it, and no %q, with %s",
					row.Promise, row.Path, is, has, row.HasNot, toJSON(t, row.Values))
			}
		}
	}
	if len(table.Rows) < 80 {
		t.Errorf("reach.yaml has only %d rows: this test reads it wrongly", len(table.Rows))
	}
}

// readData reads a file of testdata into a value, which must know every field.
func readData(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(readText(t, filepath.Join("testdata", name))))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

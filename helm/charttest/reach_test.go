package charttest

import (
	"bytes"
	"encoding/json"
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
			Promise, Build, Path, Has, HasNot string

			Values json.RawMessage
		}
	}
	readData(t, "reach.yaml", &table)
	for _, row := range table.Rows {
		values := valuesOf(t, string(row.Values))
		var objects []Object
		var is string
		name, path, _ := strings.Cut(row.Path, " ")
		switch {
		case row.Build != "":
			objects = build(t, filepath.Join("testdata", row.Build))
		case name == "Deployment/cart":
			objects = renderBeside(t, map[string]any{"weir": values})
		case name == "notes":
			is = render(t, "weir", values).Notes
		default:
			is, objects = "null", render(t, "weir", values).Objects
		}
		wants := []string{row.Has}
		for _, o := range objects {
			if o.Kind()+"/"+o.Name() != name {
				continue
			}
			at := reach(o.Tree, strings.Fields(path))
			is = string(toJSON(t, at))
			if variables, _ := at.([]any); strings.HasSuffix(path, " env") { // NAME=value, each in a line
				is, wants = "\n", strings.Fields(row.Has)
				for i, want := range wants {
					wants[i] = "\n" + want + "\n"
				}
				for _, v := range variables {
					is += fmt.Sprint(reach(v, []string{"name"}), "=", reach(v, []string{"value"}), "\n")
				}
			}
		}
		for _, has := range wants {
			if !strings.Contains(is, has) || row.HasNot != "" && strings.Contains(is, row.HasNot) {
				t.Errorf("%s: %s is %s, want %s in it, and no %q, with %s",
					row.Promise, row.Path, is, has, row.HasNot, row.Values)
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
	var tree any
	if err := yaml.Unmarshal([]byte(readText(t, filepath.Join("testdata", name))), &tree); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(toJSON(t, tree)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// reach is what stands at a path of keys: of a list a step is the name of an element, 0 its first, or last.
func reach(at any, path []string) any {
	for _, step := range path {
		switch in := at.(type) {
		case map[string]any:
			at = in[step]
		case []any:
			at = nil
			for i, of := range in {
				if named, _ := of.(map[string]any); named["name"] == step || step == "0" && i == 0 || step == "last" {
					at = of
				}
			}
		}
	}
	return at
}

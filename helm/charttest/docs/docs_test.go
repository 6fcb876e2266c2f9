// Package docs wants each value of the chart explained in values.yaml, and compares what the schema of the values takes for a
// descriptor file, an algorithm and a failure policy with what weir takes; with -write it writes the schema.
package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
)

var write = flag.Bool("write", false, "write what the schema takes from what weir takes")

var chartDir = filepath.Join("..", "..", "weir")

func TestSchemaTakesWhatWeirTakes(t *testing.T) {
	t.Parallel()
	schema := filepath.Join(chartDir, "values.schema.json")
	const enum = `": \{"type": "string", "enum": \["", )".*"\]`
	for _, made := range []struct {
		place, by string
		places    int
	}{
		{`(?m)^(    "descriptorFile": ).*$`, fileSchema(t), 1},
		{`("algorithm` + enum, quoted(descriptors.AlgorithmNames), 1},
		{`("onFailure` + enum, quoted(descriptors.PolicyNames), 2}, // of Redis, and of memcached
	} {
		text, err := os.ReadFile(schema)
		if err != nil {
			t.Fatal(err)
		}
		place := regexp.MustCompile(made.place)
		if n := len(place.FindAll(text, -1)); n != made.places {
			t.Fatalf("%s has %d places like %s, want %d", schema, n, place, made.places)
		}
		want := place.ReplaceAll(text, []byte("${1}"+made.by))
		if *write {
			err = os.WriteFile(schema, want, 0o644)
		} else if !bytes.Equal(text, want) {
			err = fmt.Errorf("helm/weir/values.schema.json does not take what weir takes: run make chart-docs")
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// quoted is a list of names as the end of a list in JSON.
func quoted(names string) string { return `"` + strings.ReplaceAll(names, ", ", `", "`) + `"]` }

// Operators read in values.yaml, or by helm show values, what each value does: a comment that begins with -- explains the
// mapping below it, or the lines up to the next empty one.
func TestEachValueIsExplained(t *testing.T) {
	t.Parallel()
	values, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	var document yaml.Node
	if err == nil {
		err = yaml.Unmarshal(values, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := wantExplained(t, "", document.Content[0]); n < 50 {
		t.Errorf("only %d values are explained: this test reads them wrongly", n)
	}
}

// wantExplained returns how many values of a mapping, and of the mappings in it, have an explanation.
func wantExplained(t *testing.T, prefix string, mapping *yaml.Node) (explained int) {
	t.Helper()
	last := 0 // line of the last explained value
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		switch {
		case strings.Contains(key.HeadComment, "-- ") || key.Line == last+1:
			explained, last = explained+1, key.Line
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			explained, last = explained+wantExplained(t, prefix+key.Value+".", value), 0
		default:
			t.Errorf("values.yaml:%d: %s has no comment that begins with --: nobody knows what it does", key.Line, prefix+key.Value)
		}
	}
	return explained
}

// fileSchema is what weir takes for a descriptor file, as a definition in another schema.
func fileSchema(t *testing.T) string {
	t.Helper()
	printed, _ := process.Command(t, nil, process.Weir(t), "schema")
	var tree map[string]json.RawMessage
	if err := json.Unmarshal([]byte(printed), &tree); err != nil {
		t.Fatalf("reading the schema of descriptor files: %v", err)
	}
	delete(tree, "$id") // by which references would lead out of the values' schema
	delete(tree, "$schema")
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		t.Fatal(err)
	}
	moved := strings.NewReplacer(`"#/definitions/`, `"#/definitions/descriptorFile/definitions/`, "$", "$$")
	return moved.Replace(strings.TrimSpace(line.String()))
}

// Package docs holds the table of values in the chart's README to values.yaml, and what the schema of the values takes for a
// descriptor file, an algorithm and a failure policy to what weir takes; with -write it makes them.
package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
)

var write = flag.Bool("write", false, "write what is made of values.yaml and of what weir takes")

var chartDir = filepath.Join("..", "..", "weir")

func TestFilesGeneratedFromValuesAreCurrent(t *testing.T) {
	t.Parallel()
	const schema, enum = "values.schema.json", `": \{"type": "string", "enum": \["", )".*"\]`
	for _, made := range []struct {
		name, place, by string
		places          int
	}{
		{"README.md", `(?s)(<!-- Made from values.yaml by make chart-docs. -->\n).*(<!-- The end of what is made. -->\n)`,
			valuesTable(t) + "${2}", 1},
		{schema, `(?m)^(    "descriptorFile": ).*$`, fileSchema(t), 1},
		{schema, `("algorithm` + enum, quoted(descriptors.AlgorithmNames), 1},
		{schema, `("onFailure` + enum, quoted(descriptors.PolicyNames), 2}, // of Redis, and of memcached
	} {
		text, err := os.ReadFile(filepath.Join(chartDir, made.name))
		if err != nil {
			t.Fatal(err)
		}
		place := regexp.MustCompile(made.place)
		if n := len(place.FindAll(text, -1)); n != made.places {
			t.Fatalf("%s has %d places like %s, want %d", made.name, n, place, made.places)
		}
		want := place.ReplaceAll(text, []byte("${1}"+made.by))
		if *write {
			err = os.WriteFile(filepath.Join(chartDir, made.name), want, 0o644)
		} else if !bytes.Equal(text, want) {
			err = fmt.Errorf("helm/weir/%s is not made of values.yaml and of what weir takes: run make chart-docs", made.name)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// quoted is a list of names as the end of a list in JSON.
func quoted(names string) string { return `"` + strings.ReplaceAll(names, ", ", `", "`) + `"]` }

// valuesTable is a Markdown table of the values: each with its default and the comment above it that begins with --. A
// comment above a mapping is for all that stands below it; one above a line also for the next lines, up to an empty one.
func valuesTable(t *testing.T) string {
	t.Helper()
	values, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	var document yaml.Node
	if err == nil {
		err = yaml.Unmarshal(values, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, r := range readRows(t, "", document.Content[0]) {
		defaults := r.defaults
		if same := slices.Compact(slices.Clone(defaults)); len(same) == 1 {
			defaults = same
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(r.names, ", "), strings.Join(defaults, ", "), r.meaning)
	}
	return strings.ReplaceAll(b.String(), "$", "$$")
}

// A row holds the values that one comment explains.
type row struct {
	names, defaults []string
	meaning         string
	line            int // of its last value
}

// readRows reads the rows of a mapping.
func readRows(t *testing.T, prefix string, mapping *yaml.Node) (rows []*row) {
	t.Helper()
	var explained *row // the row of the line above
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		meaning := explanation(key.HeadComment)
		switch {
		case meaning != "":
			explained = &row{meaning: meaning}
			rows = append(rows, explained)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			rows, explained = append(rows, readRows(t, name+".", value)...), nil
			continue
		case explained == nil || key.Line != explained.line+1:
			t.Fatalf("line %d of the values: %s has no comment that begins with --: nobody knows what it does", key.Line, name)
		}
		explained.names = append(explained.names, "`"+name+"`")
		explained.defaults = append(explained.defaults, inOneLine(t, value))
		explained.line = key.Line
	}
	return rows
}

// longestDefault is the most of a default, in bytes, that a row shows.
const longestDefault = 75

// inOneLine shows a default as one writes it on the command line; one that is too long is left to the file.
func inOneLine(t *testing.T, value *yaml.Node) string {
	t.Helper()
	text, err := yaml.Marshal(withoutComments(value))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSuffix(string(text), "\n")
	if len(line) > longestDefault {
		line = "values.yaml"
	}
	return "`" + strings.ReplaceAll(line, "|", `\|`) + "`"
}

// withoutComments is a copy of a value whose mappings and lists stand in braces and brackets.
func withoutComments(value *yaml.Node) *yaml.Node {
	plain := &yaml.Node{Kind: value.Kind, Style: value.Style | yaml.FlowStyle, Tag: value.Tag, Value: value.Value}
	for _, below := range value.Content {
		plain.Content = append(plain.Content, withoutComments(below))
	}
	return plain
}

// explanation is the part of a comment from -- on, in one line.
func explanation(comment string) string {
	_, text, _ := strings.Cut(regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(comment, ""), "-- ")
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
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

// Command docs writes the table of values into the chart's README, and the schema of descriptor files, which it reads from
// its standard input, into that of the values.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	dir := flag.String("chart", "../weir", "the chart's folder")
	flag.Parse()
	if err := errors.Join(writeTable(*dir), embedSchema(*dir)); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// made is what stands between the lines in the chart's README between which the table of values stands.
var made = regexp.MustCompile(`(?s)(<!-- Made from values.yaml by make chart-docs. -->\n).*(<!-- The end of what is made. -->\n)`)

// writeTable puts the table of a chart's values into its README.
func writeTable(dir string) error {
	values, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return err
	}
	table, err := valuesTable(values)
	if err != nil {
		return err
	}
	return change(filepath.Join(dir, "README.md"), made, "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}")
}

// change replaces the one place in a file that an expression matches.
func change(name string, place *regexp.Regexp, by string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if n := len(place.FindAll(text, -1)); n != 1 {
		return fmt.Errorf("%s has %d places like %s, want one", name, n, place)
	}
	return os.WriteFile(name, place.ReplaceAll(text, []byte(by)), 0o644)
}

// valuesTable is a Markdown table of the values: each with its default and the comment above it that begins with --. A
// comment above a mapping is for all that stands below it; one above a line also for the next lines, up to an empty one.
func valuesTable(values []byte) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", fmt.Errorf("reading the values: %w", err)
	}
	rows, err := readRows("", document.Content[0])
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(r.names, ", "), strings.Join(r.defaults, ", "), r.meaning)
	}
	return b.String(), nil
}

// A row holds the values that one comment explains.
type row struct {
	names, defaults []string
	meaning         string
	line            int // of its last value
}

// readRows reads the rows of a mapping. Its error names a value that nothing explains.
func readRows(prefix string, mapping *yaml.Node) ([]*row, error) {
	var rows []*row
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
			below, err := readRows(name+".", value)
			if err != nil {
				return nil, err
			}
			rows, explained = append(rows, below...), nil
			continue
		case explained == nil || key.Line != explained.line+1:
			return nil, fmt.Errorf("line %d of the values: %s has no comment that begins with --, so nobody would know what it does",
				key.Line, name)
		}
		byDefault, err := inOneLine(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		explained.names = append(explained.names, "`"+name+"`")
		explained.defaults = append(explained.defaults, byDefault)
		explained.line = key.Line
	}
	return rows, nil
}

// longestDefault is the most of a default, in bytes, that a row shows.
const longestDefault = 130

// inOneLine shows a default as one writes it on the command line; one that is too long is left to the file.
func inOneLine(value *yaml.Node) (string, error) {
	text, err := yaml.Marshal(withoutComments(value))
	if err != nil {
		return "", err
	}
	line := strings.TrimSuffix(string(text), "\n")
	if len(line) > longestDefault {
		return "`values.yaml`", nil
	}
	return "`" + strings.ReplaceAll(line, "|", `\|`) + "`", nil
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

// fileSchema is the line of a chart's schema that says what a descriptor file is.
var fileSchema = regexp.MustCompile(`(?m)^    "descriptorFile": .*$`)

// embedSchema puts the schema of descriptor files into that of a chart's values, as the definition descriptorFile.
func embedSchema(dir string) error {
	var tree map[string]json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&tree); err != nil {
		return fmt.Errorf("reading the schema of descriptor files: %w", err)
	}
	delete(tree, "$id") // by which references would lead out of the values' schema
	delete(tree, "$schema")
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return err
	}
	moved := strings.NewReplacer(`"#/definitions/`, `"#/definitions/descriptorFile/definitions/`, "$", "$$")
	definition := `    "descriptorFile": ` + moved.Replace(strings.TrimSpace(line.String()))
	return change(filepath.Join(dir, "values.schema.json"), fileSchema, definition)
}

package charttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The lines in the chart's README between which the table of values stands.
const (
	tableBegin = "<!-- Made from values.yaml by make chart-docs. -->\n"
	tableEnd   = "<!-- The end of what is made. -->\n"
)

// Document puts the table of a chart's values into its README. Its error names a value that nothing explains.
func Document(readme, values string) (string, error) {
	before, rest, found := strings.Cut(readme, tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		return "", fmt.Errorf("the README has no room for a table: it lacks %q or %q", tableBegin, tableEnd)
	}
	table, err := valuesTable(values)
	if err != nil {
		return "", err
	}
	return before + tableBegin + table + tableEnd + after, nil
}

// valuesTable is a Markdown table of the values: each with its default and the comment above it that begins with --.
func valuesTable(values string) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(values), &document); err != nil {
		return "", fmt.Errorf("reading the values: %w", err)
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	if err := writeRows(&b, "", document.Content[0]); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeRows(b *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		meaning := explanation(key.HeadComment)
		if meaning == "" && value.Kind == yaml.MappingNode {
			if err := writeRows(b, name+".", value); err != nil {
				return err
			}
			continue
		}
		if meaning == "" {
			return fmt.Errorf("line %d of the values: %s has no comment that begins with --, so nobody would know what it does",
				key.Line, name)
		}
		var plain any
		if err := value.Decode(&plain); err != nil {
			return err
		}
		byDefault, err := json.Marshal(plain)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", name, byDefault, meaning)
	}
	return nil
}

// explanation is the part of a comment from -- on, in one line.
func explanation(comment string) string {
	var words []string
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		if text, begins := strings.CutPrefix(line, "--"); begins {
			words, line = nil, strings.TrimSpace(text)
		} else if words == nil {
			continue
		}
		words = append(words, line)
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}

// fileSchema is the line of a chart's schema that says what a descriptor file is.
var fileSchema = regexp.MustCompile(`(?m)^    "descriptorFile": .*$`)

// EmbedFileSchema puts the schema of descriptor files into that of a chart's values, as the definition descriptorFile.
func EmbedFileSchema(values, file string) (string, error) {
	if n := len(fileSchema.FindAllString(values, -1)); n != 1 {
		return "", fmt.Errorf("the schema of values has %d lines of the definition descriptorFile, want one", n)
	}
	var tree map[string]json.RawMessage
	if err := json.Unmarshal([]byte(file), &tree); err != nil {
		return "", fmt.Errorf("reading the schema of descriptor files: %w", err)
	}
	delete(tree, "$id") // by which references would lead out of the values' schema
	delete(tree, "$schema")
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(tree); err != nil {
		return "", err
	}
	moved := strings.ReplaceAll(strings.TrimSpace(line.String()), `"#/definitions/`, `"#/definitions/descriptorFile/definitions/`)
	return fileSchema.ReplaceAllLiteralString(values, `    "descriptorFile": `+moved), nil
}

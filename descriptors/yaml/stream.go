package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

// Documents returns the roots of a file's YAML documents, without empty ones. If the file is not valid, it returns the
// documents before the error, the error and its line (0 if unknown).
func Documents(data []byte) (roots []*yaml.Node, line int, err error) {
	if countNodes(data) > maxNodes {
		return nil, 0, errTooManyNodes
	}
	if roots, line, err = documents(data); err != nil {
		if joined := joinSurrogates(data); !bytes.Equal(joined, data) {
			return documents(joined)
		}
	}
	return roots, line, err
}

// surrogates matches the escape of a surrogate pair in JSON, which YAML lacks, and any other escape.
var surrogates = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|.)`)

// joinSurrogates replaces the surrogate pairs of JSON by their characters.
func joinSurrogates(data []byte) []byte {
	return surrogates.ReplaceAllFunc(data, func(escape []byte) []byte {
		var text string
		if len(escape) == len(`\ud83d\ude00`) && json.Unmarshal(fmt.Appendf(nil, `"%s"`, escape), &text) == nil {
			return []byte(text)
		}
		return escape
	})
}

func documents(data []byte) (roots []*yaml.Node, line int, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return roots, 0, nil
		case err != nil:
			line, err = syntaxError(err)
			return roots, line, err
		case !isNull(document.Content[0]):
			roots = append(roots, document.Content[0])
		}
	}
}

var errTooManyNodes = fmt.Errorf("more than %d lines, commas, brackets and list items: split it", maxNodes)

// countNodes counts the signs that begin YAML nodes, of which a sign begins up to three. It is cheap, so it runs before
// parsing.
func countNodes(data []byte) int {
	n := 0
	for _, sign := range []string{"\n", "\r", ",", "[", "{", "- ", "-\t", "? ", "?\t"} {
		n += bytes.Count(data, []byte(sign))
	}
	return n
}

// syntaxError splits an error of the YAML library into its line and the error without the line.
func syntaxError(err error) (line int, without error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	begin, rest, _ := strings.Cut(text, ": ")
	if line, err = strconv.Atoi(strings.TrimPrefix(begin, "line ")); err == nil {
		text = rest
	}
	return line, errors.New("not valid YAML: " + descriptors.Abbreviate(text))
}

// ManifestKind returns the kind of a Kubernetes manifest, or "" if root is none.
func ManifestKind(root *yaml.Node) string {
	if root.Kind != yaml.MappingNode {
		return ""
	}
	texts := make(map[string]string)
	for key, value := range Pairs(root) {
		if value.Kind == yaml.ScalarNode {
			texts[key.Value] = value.Value
		}
	}
	if _, isDescriptors := texts["domain"]; isDescriptors || texts["apiVersion"] == "" {
		return ""
	}
	return texts["kind"]
}

// NamesDomain reports whether data look like a descriptor file, valid or not: they have a domain at the top level.
func NamesDomain(data []byte) bool { return domainLine(data) != "" }

package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

func TestTheCommittedSchemaIsThatOfTheGrammar(t *testing.T) {
	committed, err := os.ReadFile("../schema.json")
	if err != nil || !bytes.Equal(committed, Schema()) {
		t.Errorf("descriptors/schema.json is not what the grammar makes (%v): go run ./cmd/weir schema > descriptors/schema.json", err)
	}
}

// compile compiles a schema as editors and Helm do.
func compile(t testing.TB, text []byte) *jsonschema.Schema {
	t.Helper()
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", read); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// asAnEditor returns what YAML 1.2 makes of a node, which is how editors read it.
func asAnEditor(n *yaml.Node, depth int) (any, error) {
	switch n = follow(n); {
	case depth > maxDepth:
		return nil, errors.New("it contains itself")
	case n.Kind == yaml.SequenceNode:
		all := []any{}
		for _, item := range n.Content {
			v, err := asAnEditor(item, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	case n.Kind == yaml.MappingNode:
		return mappingAsAnEditor(n, depth)
	}
	return scalarAsAnEditor(n), nil
}

func mappingAsAnEditor(n *yaml.Node, depth int) (map[string]any, error) {
	all := make(map[string]any)
	for i := 0; i+1 < len(n.Content); i += 2 {
		v, err := asAnEditor(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		key := follow(n.Content[i])
		if !isMerge(key) {
			all[key.Value] = v
			continue
		}
		sources, isList := v.([]any)
		if !isList {
			sources = []any{v}
		}
		for _, source := range slices.Backward(sources) {
			merged, ok := source.(map[string]any)
			if !ok {
				return nil, errors.New("no mapping is merged")
			}
			for name, value := range merged {
				all[name] = value
			}
		}
	}
	return all, nil
}

var wholeNumbers = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
var numbers = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// scalarAsAnEditor resolves a scalar by the core schema of YAML 1.2.
func scalarAsAnEditor(n *yaml.Node) any {
	switch v := n.Value; {
	case n.Style&(quotes|yaml.TaggedStyle) != 0:
	case v == "" || v == "~" || strings.EqualFold(v, "null"):
		return nil
	case strings.EqualFold(v, "true"), strings.EqualFold(v, "false"):
		if !slices.Contains([]string{v, strings.ToLower(v), strings.ToUpper(v)}, v[:1]+strings.ToLower(v[1:])) {
			return v
		}
		return strings.EqualFold(v, "true")
	case wholeNumbers.MatchString(v) && strings.HasPrefix(v, "0o"), wholeNumbers.MatchString(v) && strings.HasPrefix(v, "0x"):
		if whole, err := strconv.ParseUint(v, 0, 64); err == nil {
			return json.Number(fmt.Sprint(whole))
		}
	case numbers.MatchString(v):
		v = strings.TrimPrefix(v, "+")
		if wholeNumbers.MatchString(v) { // JSON has no 007
			minus := strings.HasPrefix(v, "-")
			v = strings.TrimLeft(strings.TrimPrefix(v, "-"), "0")
			if v == "" {
				v = "0"
			}
			if minus {
				v = "-" + v
			}
			return json.Number(v)
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f
		}
	}
	return n.Value
}

// onlyTheParser are the faults that no schema can say, by what messages of them hold.
var onlyTheParser = map[string]string{
	"already configured":               "it takes the whole tree, or other files",
	"would share one count":            "it takes a comparison of items",
	"sliding_log or none":              "it takes a comparison of items",
	"name of same descriptor":          "it takes a comparison of texts",
	"must be below the window":         "it takes arithmetic",
	"too fine for a window":            "it takes arithmetic",
	"longer than 292 years":            "it takes arithmetic",
	"beside 0 requests":                "the requests may be left out",
	"a key in metadata must be a word": "JSON's keys are texts",
	"metadata holds":                   "JSON has no such numbers",
}

// stricter are the files that only the schema refuses, by name.
var stricter = map[string]string{
	"a width in nanoseconds":              "the schema has the widths as people write them",
	"unlimited-with-a-misspelt-unit.yaml": "the parser only warns of what envoyproxy/ratelimit takes; an editor has no better mark",
}

// schemaFiles returns every descriptor file of the repository, and those of this package's tests.
func schemaFiles(t *testing.T) (all []File) {
	for _, pattern := range []string{"../../k8s/base/config/*", "../../helm/weir/files/*", "../testdata/*.yaml", "testdata/bad/*",
		"testdata/valid/*", "../../cmd/weir/bench/*.yaml", "../../server/*/testdata/everything.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || (len(files) == 0 && !strings.Contains(pattern, "valid")) {
			t.Fatalf("there are no files %s: %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, File{filepath.Base(name), data})
		}
	}
	for _, test := range slices.Concat(fileErrors, descriptorErrors, limitErrors) {
		all = append(all, File{test.name, []byte(test.text)})
	}
	all = append(all, File{"a width in nanoseconds", []byte(under(`rate_limit: {unit: day, requests_per_unit: 1, precision: 1000000000ns}`))},
		File{"widths and units as people write them", []byte(under(`rate_limits: [{unit: Day, requests_per_unit: 1_0, precision: 60s}, `+
			`{unit: WEEK, requests_per_unit: 0b11, precision: 24h, unit_multiplier: 0o17, replaces: }]`, "shadow_mode: yes", "metadata:"))})
	for i, text := range everyFeature {
		all = append(all, File{fmt.Sprint("feature ", i), []byte(text)})
	}
	for i, block := range strings.Split(formatDocument(t), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```\n")
		if strings.HasPrefix(text, "-") {
			text = "domain: shop\ndescriptors:\n" + text
		}
		all = append(all, File{fmt.Sprint("example ", i+1, " of FORMAT.md"), []byte(text)})
	}
	return all
}

// An editor must not underline what weir takes, and should underline what weir refuses.
func TestTheSchemaAgreesWithTheParser(t *testing.T) {
	schema, used := compile(t, Schema()), make(map[string]bool)
	for _, f := range schemaFiles(t) {
		t.Run(f.Name, func(t *testing.T) {
			_, problems := Parse([]File{f}, Options{})
			var root yaml.Node
			if yaml.Unmarshal(f.Data, &root) != nil || len(root.Content) == 0 {
				return // no YAML, or none that says anything
			}
			v, err := asAnEditor(root.Content[0], 0)
			if err != nil {
				return
			}
			refused := schema.Validate(v)
			switch {
			case refused != nil && problems.Err() == nil && stricter[f.Name] == "":
				t.Errorf("the schema refuses what weir takes:\n%v\n%s", refused, f.Data)
			case refused == nil && problems.Err() == nil && stricter[f.Name] != "":
				t.Errorf("the schema takes it: strike it from the list")
			case refused == nil && problems.Err() != nil:
				for _, p := range problems {
					if !p.Warning && !known(p.Text, used) {
						t.Errorf("the schema takes what weir refuses: %v\n%s", p, f.Data)
					}
				}
			}
		})
	}
	for text := range onlyTheParser {
		if !used[text] {
			t.Errorf("no file has the fault that only the parser sees: …%s…", text)
		}
	}
}

// known reports whether only the parser sees the fault of this message.
func known(message string, used map[string]bool) bool {
	for text := range onlyTheParser {
		if strings.Contains(message, text) {
			if used != nil {
				used[text] = true
			}
			return true
		}
	}
	return false
}

// Who copies an example has an editor that knows its keys.
func TestTheShippedLimitsNameTheirSchema(t *testing.T) {
	for _, name := range []string{"../../k8s/base/config/shop.yaml", "../../helm/weir/files/shop.yaml"} {
		data, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(data), "# yaml-language-server: $schema="+SchemaURL+"\n") {
			t.Errorf("%s does not begin with the line that names its schema (%v)", name, err)
		}
	}
}

package yaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weirproxy/weir/descriptors"
)

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

// onlyTheParser are the faults that no schema can say, by what messages of them hold.
var onlyTheParser = map[string]string{
	"already configured":       "it takes the whole tree, or other files",
	"the path is":              "it takes the whole tree",
	"would share one count":    "it takes a comparison of items",
	"sliding_log or none":      "it takes a comparison of items",
	"name of same descriptor":  "it takes a comparison of texts",
	"must be below the window": "it takes arithmetic",
	"too fine for a window":    "it takes arithmetic",
	"longer than 292 years":    "it takes arithmetic",
	"is too long for sliding":  "it takes arithmetic",
	"beside 0 requests":        "the requests may be left out",
	"first YAML document":      "an editor judges each document by itself",
	"is given twice":           "it takes the text: << and what it gives are one mapping to an editor",
	"rate_limit is empty":      "an editor takes an empty text for a written null",
	"control character":        "control characters in a pattern are ill to read",
}

const takenThere = "the parser only warns of what envoyproxy/ratelimit takes; an editor has no better mark"

// stricter are the files that only the schema refuses, by name.
var stricter = map[string]string{
	"a-width-in-nanoseconds.yaml":         "the schema has the widths as people write them",
	"unlimited-with-a-misspelt-unit.yaml": takenThere,
	"domain-in-a-descriptor.yaml":         takenThere,
	"key-in-the-file.yaml":                takenThere,
	"replaces-in-a-descriptor.yaml":       takenThere,
	"shadow-mode-in-rate-limit.yaml":      takenThere,
}

// schemaFiles returns every descriptor file of the repository, and those of this package's tests.
func schemaFiles(t *testing.T) (all []File) {
	for _, pattern := range []string{"../../k8s/base/config/*", "../../helm/weir/files/*", "../testdata/*.yaml", "testdata/*/*.yaml",
		"../../cmd/weir/bench/*.yaml", "../../server/*/testdata/everything.yaml"} {
		all = append(all, read(t, pattern)...)
	}
	for name, text := range tooMuch {
		all = append(all, file(name, text))
	}
	for i, block := range strings.Split(string(read(t, "../FORMAT.md")[0].Data), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```\n")
		if strings.HasPrefix(text, "-") {
			text = "domain: shop\ndescriptors:\n" + text
		}
		all = append(all, file(fmt.Sprint("example ", i+1, " of FORMAT.md"), text))
	}
	return all
}

// An editor must offer every key and every word that the parser knows, and no other.
func TestSchemaHasEveryKey(t *testing.T) {
	type mapping struct {
		Properties map[string]struct {
			Description string
			Enum        []string
			AnyOf       []struct{ Enum []string }
		}
	}
	var schema struct {
		mapping
		Definitions map[string]mapping
	}
	if err := json.Unmarshal([]byte(descriptors.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"charge": descriptors.ChargeNames, "on_backend_failure": descriptors.PolicyNames,
		"unit": descriptors.UnitNames, "algorithm": descriptors.AlgorithmNames, "precision": descriptors.PrecisionNames}
	of := schema.Definitions
	for in, got := range map[*keySet]mapping{inFile: schema.mapping, inDescriptor: of["descriptor"],
		inListItem: of["limit"], inRateLimit: of["rate_limit"], inReplaces: of["replaced"]} {
		if keys := slices.Sorted(maps.Keys(got.Properties)); !slices.Equal(keys, slices.Sorted(slices.Values(in.keys))) {
			t.Errorf("%s has the keys %v in the schema, and %v for the parser", in.name, keys, in.keys)
		}
		for key, property := range got.Properties {
			offered := property.Enum
			for _, choice := range property.AnyOf {
				offered = append(offered, choice.Enum...)
			}
			if property.Description == "" || strings.Join(offered, ", ") != words[key] {
				t.Errorf("%s in %s is described as %q, with the words %v; want words for people, and %q", key, in.name,
					property.Description, offered, words[key])
			}
		}
	}
}

// An editor must not underline what weir takes, and should underline what weir refuses.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	schema, used := compile(t, []byte(descriptors.Schema)), make(map[string]bool)
	for _, f := range schemaFiles(t) {
		t.Run(f.Name, func(t *testing.T) {
			_, problems := judge([]File{f}, Options{})
			var v any
			if yaml.Unmarshal(f.Data, &v) != nil || v == nil {
				return // no YAML, or none that says anything
			}
			text, err := json.Marshal(v)
			if err != nil {
				return // what no JSON has, which is all that an editor compares with the schema
			}
			read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			refused, spelled := schema.Validate(read), strings.Contains(string(f.Data), ": yes") // which YAML 1.2 takes for a text
			switch {
			case refused != nil && problems.Err() == nil && stricter[f.Name] == "" && !spelled:
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
			used[text] = true
			return true
		}
	}
	return false
}

package yaml

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// SchemaURL is where editors find the schema of descriptor files: descriptors/schema.json of the repository.
const SchemaURL = "https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json"

// Schema returns the JSON Schema (draft-07) of descriptor files, for editors. It is made of the tables that the parser
// reads. What it refuses the parser refuses too; the parser also judges what no schema can say, such as a descriptor
// that is there twice. Keys that the parser ignores with a warning are marked with deprecationMessage, which editors
// show as one; patternErrorMessage is what they say in place of a pattern.
//
// An editor that follows YAML 1.2 takes yes and 1_000 for texts, so the schema allows these texts for flags and numbers.
func Schema() []byte {
	return (&schema{asText: true}).document(object{"$id": SchemaURL, "title": "Descriptor file of weir"})
}

// ValuesSchema returns the JSON Schema of descriptor files that are given as values, as those of a Helm chart, and only
// then written as text. A flag is true or false there and a number is one: what is a text there is quoted in the file,
// where the parser refuses it.
func ValuesSchema() []byte {
	return (&schema{}).document(object{"title": "Descriptor file of weir, as a value"})
}

type object = map[string]any

// schema makes a schema of the grammar.
type schema struct {
	asText bool // of YAML, which has more spellings of flags and numbers
}

// document returns the schema as the file of a JSON Schema that begins with head.
func (s *schema) document(head object) []byte {
	all := s.definitions()
	root := all["file"].(object)
	delete(all, "file")
	root["$schema"], root["definitions"] = "http://json-schema.org/draft-07/schema#", all
	maps.Copy(root, head)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic(err) // maps, lists, texts and numbers always encode
	}
	return b.Bytes()
}

// definitions are the kinds of mappings, which refer to each other as #/definitions/NAME.
func (s *schema) definitions() object {
	descriptor, limit, rateLimit := s.kind(inDescriptor), s.kind(inListItem), s.kind(inRateLimit)
	descriptor["dependencies"] = object{"rate_limits": object{"properties": object{"rate_limit": false}}}
	descriptor["if"] = s.given("share_threshold")
	descriptor["then"] = object{"anyOf": []object{starred("key"), starred("value")}}
	limit["allOf"] = misfits()
	delete(rateLimit, "required") // an unlimited one has no unit
	rateLimit["allOf"] = misfits()
	rateLimit["if"], rateLimit["else"] = s.given("unlimited"), object{"required": []string{"unit"}}
	rateLimit["then"] = object{"properties": object{"unit": false, "unit_multiplier": false, "algorithm": false,
		"precision": false, "burst": false}}
	return object{"file": s.kind(inFile), "descriptor": descriptor, "limit": limit, "rate_limit": rateLimit,
		"replaced": s.kind(inReplaces)}
}

// starred is fulfilled by a mapping in which a text has a *.
func starred(key string) object {
	text := object{"type": "string", "pattern": `\*`, "patternErrorMessage": "share_threshold needs a * in key or value."}
	return object{"properties": object{key: text}, "required": []string{key}}
}

// misfits refuses a precision or a burst beside an algorithm that has none.
func misfits() []object {
	only := func(of descriptors.Algorithm, key string) object {
		others := slices.DeleteFunc(names(descriptors.AlgorithmNames), func(name string) bool { return name == of.String() })
		return object{
			"if":   object{"properties": object{"algorithm": object{"enum": others}}, "required": []string{"algorithm"}},
			"then": object{"properties": object{key: false}}}
	}
	return []object{only(descriptors.SlidingWindow, "precision"), only(descriptors.TokenBucket, "burst")}
}

// given is fulfilled by a mapping in which a flag is true.
func (s *schema) given(flag string) object {
	is := object{"const": true}
	if s.asText {
		is = object{"anyOf": []object{is, {"enum": spellings(true)}}}
	}
	return object{"properties": object{flag: is}, "required": []string{flag}}
}

// kind returns the schema of a kind of mapping.
func (s *schema) kind(in *kind) object {
	properties, needed := make(object), []string{}
	for i := range in.terms {
		t := &in.terms[i]
		properties[t.name] = s.term(t)
		if t.needed {
			needed = append(needed, t.name)
		}
	}
	for _, name := range borrowed {
		if _, isError := limiting[name]; properties[name] == nil && !isError && in != inListItem { // there all are errors
			properties[name] = object{"deprecationMessage": misplaced{name, in, "is ignored"}.String(), "doNotSuggest": true}
		}
	}
	all := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		all["required"] = needed
	}
	return all
}

// term returns the schema of a key's value.
func (s *schema) term(t *term) object {
	o := object{"description": t.about}
	switch t.is {
	case aText:
		textOf(o, t)
	case aWord:
		o["type"], o["enum"] = "string", names(t.words)
		if t.also != "" {
			delete(o, "enum")
			o["anyOf"] = []object{{"enum": names(t.words)}, {"pattern": t.also}}
		}
	case aFlag:
		o["type"] = []string{"boolean", "null"}
		if s.asText {
			o["type"] = []string{"boolean", "string", "null"}
			o["pattern"] = "^(" + strings.Join(append(spellings(true), spellings(false)...), "|") + ")$"
			o["patternErrorMessage"] = "Must be true or false, without quotes."
		}
	case aWhole:
		s.wholeOf(o, t)
	case aList:
		o["type"], o["items"] = []string{"array", "null"}, ref(t.of)
		if t.least > 0 {
			o["type"], o["minItems"], o["maxItems"] = "array", t.least, t.most
		}
	case aMapping:
		o["allOf"] = []object{ref(t.of)} // beside a $ref nothing else would count
	case aFree:
		o["type"] = []string{"object", "null"}
	}
	return o
}

func ref(definition string) object { return object{"$ref": "#/definitions/" + definition} }

// textOf allows what is a text as it is written. Its length is in characters here, of which a text has no more than bytes.
func textOf(o object, t *term) {
	number := "number"
	if slices.Contains(borrowed, t.name) {
		number = "integer"
		o["minimum"], o["maximum"] = int64(math.MinInt64), int64(math.MaxInt64)
	}
	o["maxLength"] = t.most
	if t.letter != "" {
		o["pattern"] = "^" + t.letter + "*$"
		o["patternErrorMessage"] = `Must be printable ASCII without " and \, as Envoy writes it into a header.`
	}
	o["type"] = []string{"string", number, "boolean", "null"}
	if t.needed {
		o["type"], o["minLength"] = []string{"string", number, "boolean"}, 1
	}
}

// otherNumbers are whole numbers that YAML 1.2 takes for texts.
const otherNumbers = `^\+?(0[bBoOxX][0-9a-fA-F_]+|[0-9]+_[0-9_]*)$`

func (s *schema) wholeOf(o object, t *term) {
	types := []string{"integer"}
	if s.asText {
		types, o["pattern"] = append(types, "string"), otherNumbers
		o["patternErrorMessage"] = "Must be a whole number, without quotes."
	}
	if t.least == 0 {
		types = append(types, "null")
	}
	o["type"], o["minimum"], o["maximum"] = types, t.least, math.MaxUint32
}

// names splits what a message lists.
func names(listed string) []string { return strings.Split(listed, ", ") }

// spellings returns the words for a flag of that value that an editor may take for texts, sorted.
func spellings(v bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(flags)), func(word string) bool {
		return flags[word] != v || strings.EqualFold(word, "true") || strings.EqualFold(word, "false")
	})
}

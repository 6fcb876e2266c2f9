package yaml

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// SchemaURL is where editors find the schema of descriptor files: descriptors/schema.json of the repository.
const SchemaURL = "https://raw.githubusercontent.com/weirproxy/weir/main/descriptors/schema.json"

// Schema returns the JSON Schema (draft-07) of descriptor files, for editors and for the values of a Helm chart. It is made
// of the tables that the parser reads. What the parser refuses and a schema can say, it refuses too. It is stricter in what
// the parser ignores, such as a key in the wrong place, and in spellings: a flag is true or false, a number is written in
// digits. patternErrorMessage is what an editor says in place of a pattern.
func Schema() []byte {
	all := definitions()
	root := all["file"].(object)
	delete(all, "file")
	root["$schema"], root["definitions"] = "http://json-schema.org/draft-07/schema#", all
	root["$id"], root["title"] = SchemaURL, "Descriptor file of weir"
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		panic(err) // maps, lists, texts and numbers always encode
	}
	return b.Bytes()
}

type object = map[string]any

// definitions are the kinds of mappings, which refer to each other as #/definitions/NAME.
func definitions() object {
	descriptor, limit, rateLimit := kindSchema(inDescriptor), kindSchema(inListItem), kindSchema(inRateLimit)
	descriptor["dependencies"] = object{"rate_limits": object{"properties": object{"rate_limit": false}}}
	descriptor["if"] = given("share_threshold")
	descriptor["then"] = object{"anyOf": []object{starred("key"), starred("value")}}
	limit["allOf"] = misfits()
	delete(rateLimit, "required") // an unlimited one has no unit
	rateLimit["allOf"] = misfits()
	rateLimit["if"], rateLimit["else"] = given("unlimited"), object{"required": []string{"unit"}}
	rateLimit["then"] = object{"properties": object{"unit": false, "unit_multiplier": false, "algorithm": false,
		"precision": false, "burst": false}}
	return object{"file": kindSchema(inFile), "descriptor": descriptor, "limit": limit, "rate_limit": rateLimit,
		"replaced": kindSchema(inReplaces)}
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
func given(flag string) object {
	return object{"properties": object{flag: object{"const": true}}, "required": []string{flag}}
}

// kindSchema returns the schema of a kind of mapping.
func kindSchema(in *kind) object {
	properties, needed := make(object), []string{}
	for i := range in.terms {
		t := &in.terms[i]
		properties[t.name] = termSchema(t)
		if t.needed {
			needed = append(needed, t.name)
		}
	}
	all := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		all["required"] = needed
	}
	return all
}

// termSchema returns the schema of a key's value.
func termSchema(t *term) object {
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
	case aWhole:
		o["type"], o["minimum"], o["maximum"] = "integer", t.least, math.MaxUint32
		if t.least == 0 {
			o["type"] = []string{"integer", "null"}
		}
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

// textOf allows numbers and flags too, which are texts as they are written. A schema counts characters, the parser bytes.
func textOf(o object, t *term) {
	number := "number"
	if slices.Contains(ratelimitKeys, t.name) {
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

// names splits what a message lists.
func names(listed string) []string { return strings.Split(listed, ", ") }

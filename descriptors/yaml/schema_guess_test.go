package yaml

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weirproxy/weir/descriptors"
)

// guess makes mappings that are nearly right: of keys that the grammar has, and some that it has elsewhere.
type guess struct{ *rand.Rand }

func (g guess) mapping(in *kind, depth int) map[string]any {
	all := make(map[string]any)
	for _, t := range in.terms {
		if t.needed && g.IntN(20) > 0 || g.IntN(4) == 0 {
			all[t.name] = g.value(t, depth)
		}
	}
	if g.IntN(8) == 0 {
		other := []*kind{inFile, inDescriptor, inListItem, inRateLimit}[g.IntN(4)]
		t := other.terms[g.IntN(len(other.terms))]
		all[t.name] = g.value(t, depth)
	}
	if g.IntN(20) == 0 {
		all["kye"] = "x"
	}
	return all
}

func (g guess) value(t term, depth int) any {
	if g.IntN(15) == 0 {
		return []any{nil, true, "text", 5, -5, 1.5, []any{}, map[string]any{}, "", "yes", "7", 4294967296, []any{map[string]any{}}}[g.IntN(13)]
	}
	switch t.is {
	case aText:
		return []any{"a", "b*", "/pay", "true", "12", 404, false}[g.IntN(7)]
	case aWord:
		words := append(names(t.words), "minuet", "MINUTE", "60s", "Always")
		return words[g.IntN(len(words))]
	case aFlag:
		return g.IntN(2) == 0
	case aWhole:
		return g.IntN(30)
	case aFree:
		return map[string]any{"tier": "gold", "n": 1.5}
	case aMapping:
		return g.mapping(inRateLimit, depth+1)
	}
	in := map[string]*kind{"descriptor": inDescriptor, "limit": inListItem, "replaced": inReplaces}[t.of]
	items := make([]any, g.IntN(3))
	if depth > 5 {
		items = nil
	}
	for i := range items {
		items[i] = g.mapping(in, depth+1)
	}
	return append([]any{}, items...)
}

func TestTheSchemaAgreesWithTheParserAboutGuesses(t *testing.T) {
	asText, asValues := compile(t, Schema()), compile(t, ValuesSchema())
	right, wrong, unsaid := 0, 0, 0
	for seed := range uint64(walks(1500, 6000)) {
		v := guess{rand.New(rand.NewPCG(seed, 15))}.mapping(inFile, 0)
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		_, problems := Parse([]File{{"f", text}}, Options{})
		for name, refused := range map[string]error{"of text": asText.Validate(read), "of values": asValues.Validate(read)} {
			switch {
			case refused != nil && problems.Err() != nil:
				wrong++
			case refused != nil && !isStricter(v):
				t.Fatalf("seed %d: the schema %s refuses what weir takes: %v\n%s", seed, name, refused, text)
			case refused == nil && problems.Err() == nil:
				right++
			case refused == nil:
				unsaid++
				for _, p := range problems {
					quoted := name == "of text" && (strings.Contains(p.Text, "without quotes"))
					if !p.Warning && !known(p.Text, nil) && !quoted {
						t.Fatalf("seed %d: the schema %s takes what weir refuses: %v\n%s", seed, name, p, text)
					}
				}
			}
		}
	}
	if min(right, wrong) < 100 || unsaid < 1 {
		t.Errorf("%d are right, %d wrong, %d wrong as only the parser sees: these guesses prove little", right, wrong, unsaid)
	}
}

// isStricter reports whether the schema alone refuses a value: a unit that is none beside unlimited.
func isStricter(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		if unit, isText := v["unit"].(string); v["unlimited"] == true && (!isText || !slices.Contains(names(descriptors.UnitNames), unit)) {
			return true
		}
		for _, below := range v {
			if isStricter(below) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, isStricter)
	}
	return false
}

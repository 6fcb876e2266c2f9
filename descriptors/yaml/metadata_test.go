package yaml

import (
	"reflect"
	"testing"
)

func TestMetadataIsReadAsJSONHasIt(t *testing.T) {
	c := parse(t, `
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 1, unit: day}
    metadata:
      <<: [{tier: silver, from: first}, {from: second, also: merged}]
      tier: gold
      unit: x
      7: number
      list: [1, 2.5, true, null, "true", 2026-11-21, {deep: 1_000}]
      empty: {}
      words: [yes, Off, n, 'yes', !!str on, !!bool 'on', 1:30, 010, 0o10, .5]
      also: mine
      <<: {also: theirs}
  - key: path
    rate_limit: {requests_per_unit: 1, unit: day}
    metadata:
`)
	want := map[string]any{
		"tier": "gold", "from": "first", "also": "theirs", "unit": "x", "7": "number",
		"list":  []any{1.0, 2.5, true, nil, "true", "2026-11-21", map[string]any{"deep": 1000.0}},
		"empty": map[string]any{},
		"words": []any{true, false, false, "yes", "on", true, "1:30", 8.0, 8.0, 0.5},
	}
	if got := c.Rules()[0].Metadata; !reflect.DeepEqual(got, want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
	if got := c.Rules()[1].Metadata; got != nil {
		t.Errorf("an empty metadata gives %v; want none", got)
	}
}

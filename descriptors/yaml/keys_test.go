package yaml

import (
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// Who shares a Redis with envoyproxy/ratelimit has to hear which limits are counted apart from it.
func TestRulesThatRatelimitCannotCountAreNamed(t *testing.T) {
	const files = `domain: shop
descriptors:
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: double, rate_limit: {unit: minute, unit_multiplier: 2, requests_per_unit: 10}}
  - {key: rolling, rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sliding_window}}
  - {key: spared, charge: admitted, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: both
    rate_limits: [{unit: minute, requests_per_unit: 10}, {unit: hour, requests_per_unit: 50}]
`
	o := Options{Algorithm: descriptors.FixedWindow, Keys: descriptors.Keys{Format: descriptors.KeysOfRatelimit}}
	c, problems := Parse([]File{{"shop.yaml", []byte(files)}}, o)
	if c == nil {
		t.Fatal(problems)
	}
	want := []string{"double", "rolling", "spared", "both"}
	for i, p := range problems {
		if !p.Warning || i >= len(want) || p.Path != want[i] || !strings.Contains(p.Text, "weir's own keys") {
			t.Errorf("problem %d is %v; want warnings that %q have weir's own keys", i, p, want)
		}
	}
	if len(problems) != len(want) {
		t.Errorf("%d problems: %v; want one for each of %q", len(problems), problems, want)
	}
	o.Keys.Format = descriptors.KeysOfWeir
	if _, problems := Parse([]File{{"shop.yaml", []byte(files)}}, o); len(problems) > 0 {
		t.Errorf("with weir's keys it has problems: %v; want none", problems)
	}
}

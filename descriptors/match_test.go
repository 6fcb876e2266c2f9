package descriptors_test

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

func TestMatchTakesExactThenPatternThenKey(t *testing.T) {
	c := fixture.Config(t, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unlimited: true}, descriptors: [{key: path, rate_limit: {unlimited: true}}]}
  - {key: user, value: ann, rate_limit: {unlimited: true}}
  - {key: user, value: a*, rate_limit: {unlimited: true}}
  - {key: user, value: "*n", descriptors: [{key: path, value: /pay, rate_limit: {unlimited: true}}]}
  - {key: user, value: root}
  - {key: h*, rate_limit: {unlimited: true}}
  - {key: host, rate_limit: {unlimited: true}}
  - {key: h*, value: x, rate_limit: {unlimited: true}}
  - {key: a_b, value: c, rate_limit: {unlimited: true}}
`)
	const none = ""
	tests := []struct {
		name string
		d    descriptors.Descriptor
		want string
	}{
		{"exact value", descriptors.Descriptor{{"user", "ann"}}, "user=ann"},
		{"first pattern that fits", descriptors.Descriptor{{"user", "allen"}}, "user=a*"},
		{"key alone", descriptors.Descriptor{{"user", "bob"}}, "user"},
		{"whitelisted value", descriptors.Descriptor{{"user", "root"}}, none},
		{"below a pattern", descriptors.Descriptor{{"user", "dan"}, {"path", "/pay"}}, "user=*n/path=/pay"},
		{"no way back from an exact value", descriptors.Descriptor{{"user", "ann"}, {"path", "/"}}, none},
		{"no way back from a pattern", descriptors.Descriptor{{"user", "dan"}, {"path", "/"}}, none},
		{"the text of a pattern is exact", descriptors.Descriptor{{"user", "*n"}}, none},
		{"pattern in the key", descriptors.Descriptor{{"header", "1"}}, "h*"},
		{"pattern in the key goes before a key alone", descriptors.Descriptor{{"host", "1"}}, "h*"},
		{"an earlier pattern hides a later one", descriptors.Descriptor{{"hx", "x"}}, "h*"},
		{"key and value are compared apart", descriptors.Descriptor{{"a", "b_c"}}, none},
		{"underscores have no meaning", descriptors.Descriptor{{"a_b", "c"}}, "a_b=c"},
		{"no entries", nil, none},
		{"upper case", descriptors.Descriptor{{"User", "ann"}}, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := c.Match("shop", test.d)
			got := none
			if m.Found == descriptors.RuleFound {
				got = descriptors.ReadablePath(m.Rule.Path)
			}
			if got != test.want || (m.Rule != nil) != (m.Found == descriptors.RuleFound) || m.Found == descriptors.UnknownDomain {
				t.Errorf("%v: got rule %q (%+v), want %q", test.d, got, m, test.want)
			}
			if m := c.Match("other", test.d); m.Found != descriptors.UnknownDomain || m.Rule != nil {
				t.Errorf("an unknown domain gives %+v", m)
			}
		})
	}
	if m := new(descriptors.Config).Match("shop", descriptors.Descriptor{{"user", "ann"}}); m.Found != descriptors.UnknownDomain {
		t.Errorf("the zero Config knows a domain: %+v", m)
	}
}

// many returns a configuration of n rules for the users u0, u1 and so on.
func many(n int) *descriptors.Config {
	shop := &descriptors.Domain{Name: "shop", Where: "shop.yaml:1"}
	for i := range n {
		value, where := fmt.Sprint("u", i), fmt.Sprint("shop.yaml:", 3+i)
		node, _ := shop.Root.Add("user", value, where)
		shop.SetRule(node, &descriptors.Rule{Path: descriptors.PathSegment("user", value), Where: where, Unlimited: true})
	}
	return descriptors.NewConfig(descriptors.Keys{}, []*descriptors.Domain{shop}, nil)
}

func TestMatchAllocatesNothing(t *testing.T) {
	c := many(100)
	for _, d := range []descriptors.Descriptor{{{"user", "u7"}}, {{"user", "nobody"}}, {{"user", "u7"}, {"path", "/"}}, nil} {
		if n := testing.AllocsPerRun(1000, func() { c.Match("shop", d) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0: every request is matched", d, n)
		}
	}
}

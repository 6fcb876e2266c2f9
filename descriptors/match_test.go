package descriptors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

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
	users, bots, long := many(100), patterned("path", "*bot%d*", 100), strings.Repeat("bot/", 500)
	for _, test := range []struct {
		c *descriptors.Config
		d descriptors.Descriptor
	}{
		{users, descriptors.Descriptor{{"user", "u7"}}}, {users, descriptors.Descriptor{{"user", "nobody"}}},
		{users, descriptors.Descriptor{{"user", "u7"}, {"path", "/"}}}, {users, nil},
		{bots, descriptors.Descriptor{{"path", "/bot7"}}}, {bots, descriptors.Descriptor{{"path", long}}},
	} {
		if n := testing.AllocsPerRun(1000, func() { test.c.Match("shop", test.d) }); n != 0 {
			t.Errorf("%.40v: %v allocations, want 0: every request is matched", test.d, n)
		}
	}
}

func TestAppendKeyAllocatesNothing(t *testing.T) {
	d, dst := descriptors.Descriptor{{"user", "ann"}, {"path", strings.Repeat("v", 60_000)}}, make([]byte, 0, 200)
	if n := testing.AllocsPerRun(100, func() { descriptors.Match{}.AppendKey(dst, "shop", d) }); n != 0 {
		t.Errorf("%v allocations, want 0: a long value is hashed where it is", n)
	}
}

// An operator who has replaced envoyproxy/ratelimit goes on counting in its keys, collisions included. The names are
// those of its own tests, without the window's beginning that the store appends.
func TestRatelimitKeyMatchesRatelimit(t *testing.T) {
	o := yaml.Options{Algorithm: descriptors.FixedWindow, Keys: descriptors.Keys{Format: descriptors.KeysOfRatelimit, Prefix: "p:"}}
	c := fixture.ConfigWith(t, o, `
domain: domain
descriptors:
- {key: key, value: value, rate_limit: &ten {requests_per_unit: 10, unit: second}}
- {key: key2, rate_limit: *ten, descriptors: [{key: subkey2, rate_limit: *ten}]}
- {key: files, value: files/*, share_threshold: true, rate_limit: *ten}
- {key: doubled, rate_limit: &two {<<: *ten, unit_multiplier: 2}}
- {key: several, rate_limits: [*ten, *two]}
- {key: admitted, charge: admitted, rate_limit: *ten}
`)
	v := strings.Repeat("v", 1011)
	for text, want := range map[string]string{
		"key=value":                     "p:domain_key_value_",
		"key2=value2,subkey2=subvalue2": "p:domain_key2_value2_subkey2_subvalue2_",
		"key2=":                         "p:domain_key2__",
		"files=files/a.pdf":             "p:domain_files_files/*_",
		"key2=" + v:                     "p:domain_key2_" + v + "_",
		"key2=" + v + "v":               "p:##nX4+KPBWiVj3AuxRoAr161VqvBDr9XjwGCqtEquGI+k_",     // of 1,025 bytes
		"doubled=x":                     "", "several=x": "", "admitted=x": "", "unknown=x": "", // weir's keys
	} {
		d, err := descriptors.ParseDescriptor(text)
		stem, plain := descriptors.RatelimitKey(c.Match("domain", d).AppendKey(nil, "domain", d))
		if err != nil || string(stem) != want || plain != (want != "") {
			t.Errorf("%s has the key %q, %v; want that of envoyproxy/ratelimit, %q (\"\": weir's own)", text, stem, err, want)
		}
	}
	d := descriptors.Descriptor{{Key: "files", Value: "files/a.pdf"}}
	for i, want := range []string{"p:domain_files_files/a.pdf_", ""} { // each value apart, and nothing in windows of two units
		limit := c.Match("domain", descriptors.Descriptor{{Key: "several"}}).Rule.Limits[i]
		override := c.Match("domain", d).ForOverride(&limit, descriptors.ChargeByAlgorithm)
		if stem, _ := descriptors.RatelimitKey(override.AppendKey(nil, "domain", d)); string(stem) != want {
			t.Errorf("a request's own limit %v is counted under %q, want %q", limit, stem, want)
		}
	}
}

func TestPatternsMatchHostileTextFast(t *testing.T) {
	// A backtracking matcher needs longer than the universe has for this.
	own, e := descriptors.Entry{Key: strings.Repeat("a*", 50) + "b"}, descriptors.Entry{Key: strings.Repeat("a", 100_000)}
	if own.Fits(e) {
		t.Error("there is no b")
	}
}

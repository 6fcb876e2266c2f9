package rulestats

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

func TestKnownValuesAndOwnLimitsAllocateNothing(t *testing.T) {
	c := fixture.Config(t, "domain: shop\ndescriptors:\n- {key: user, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	d := descriptors.Descriptor{{Key: "user", Value: "ann"}}
	rule := c.Match("shop", d).Rule
	r := New(false).Rule("shop", rule)
	for _, own := range []bool{false, true} {
		if n := testing.AllocsPerRun(100, func() { r.Counters(rule, d, own) }); n != 0 {
			t.Errorf("with a limit of its own: %v: finding a known name allocates %v times, want none", own, n)
		}
	}
}

// The counters of removed rules stay, because a sum that goes down looks like a restart. The number of names is bounded.
func TestTotalsOfRatelimitOutliveTheirRules(t *testing.T) {
	g := New(false)
	c := fixture.Config(t, "domain: shop\ndescriptors:\n"+
		"- {key: user, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"+
		"- {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	want := map[string]uint64{"shop.user___other__": 150, "shop.path": 3, "shop.__other__": 153, "shop.a_x.1_b": 3}
	for i := range MaxValues {
		want[fmt.Sprint("shop.user_u", i)], want[fmt.Sprint("shop.path_", i)] = 3, 3
	}
	for range 3 { // as often the rules go, and come back
		rules := make(map[*descriptors.Rule]*Rule)
		count := func(key, value string, own bool) {
			d := descriptors.Descriptor{{Key: key, Value: value}}
			rule := c.Match("shop", d).Rule
			if rules[rule] == nil {
				rules[rule] = g.Rule("shop", rule)
			}
			rules[rule].Counters(rule, d, own).Add(TotalHits, 1)
		}
		for i := range MaxValues + 50 {
			count("user", fmt.Sprint("u", i), false)
			count("path", fmt.Sprint(i), true)
		}
		count("path", "/", false)
		count("a:x.1", "b", true)
		count("a", strings.Repeat("b", descriptors.MaxValue), true)
		g.CountUnknownDomain()
	}
	got := make(map[string]uint64)
	for name, sum := range g.Totals() {
		got[name] = sum[TotalHits]
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := g.NotFound(); n != 3 {
		t.Errorf("%d descriptors had a domain that is not there, want 3", n)
	}
	g.byName = make(map[string]*Counters, maxNames)
	for i := range maxNames {
		g.byName[strconv.Itoa(i)] = new(Counters)
	}
	if a, b := g.get("more"), g.get("yet more"); a != b || len(g.byName) != maxNames+1 {
		t.Errorf("%d names are kept, want %d, and one for all others", len(g.byName), maxNames)
	}
}

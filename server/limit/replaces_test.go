package limit_test

import (
	"maps"
	"testing"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const replacing = `
domain: shop
descriptors:
  - {key: any, rate_limit: {requests_per_unit: 0, unit: minute, name: any}}
  - {key: list, rate_limits: [{requests_per_unit: 0, unit: minute, name: listed}, {requests_per_unit: 0, unit: hour, name: any}]}
  - {key: some, rate_limits: [{requests_per_unit: 0, unit: minute}, {requests_per_unit: 5, unit: hour, name: any}]}
  - {key: item, rate_limits: [{requests_per_unit: 1, unit: minute, replaces: [{name: any}]}, {requests_per_unit: 5, unit: hour}]}
  - {key: vip, rate_limit: {requests_per_unit: 10, unit: minute, name: vip, replaces: [{name: any}, {name: listed}, {name: gift}]}}
  - {key: all, rate_limit: {unlimited: true, name: gift, replaces: [{name: any}]}}
  - {key: left, rate_limit: {requests_per_unit: 0, unit: minute, name: left, replaces: [{name: right}]}}
  - {key: right, rate_limit: {requests_per_unit: 0, unit: minute, name: right, replaces: [{name: left}]}}
`

func TestReplacedLimitsNeitherHoldNorCount(t *testing.T) {
	overridden := with(one("vip", ""), override(5, descriptors.Minute, 1))
	for name, tc := range map[string]struct {
		asks []limit.Descriptor
		over bool
		want map[string]hits.Totals
	}{
		"alone a limit holds":          {[]limit.Descriptor{one("any", "")}, true, map[string]hits.Totals{"shop any": {Over: 1}}},
		"before the one that replaces": {[]limit.Descriptor{one("any", ""), one("vip", "")}, false, map[string]hits.Totals{"shop vip": {Within: 1}}},
		"behind it":                    {[]limit.Descriptor{one("vip", ""), one("any", "")}, false, map[string]hits.Totals{"shop vip": {Within: 1}}},
		"all limits of a rule":         {[]limit.Descriptor{one("vip", ""), one("list", "")}, false, map[string]hits.Totals{"shop vip": {Within: 1}}},
		"one of a rule's limits": {[]limit.Descriptor{one("vip", ""), one("some", "")}, true,
			map[string]hits.Totals{"shop vip": {Within: 1}, "shop some": {Over: 1}}},
		"by an item of a list": {[]limit.Descriptor{one("item", ""), one("any", "")}, false,
			map[string]hits.Totals{"shop item": {Within: 1, Near: 1}}},
		"by an unlimited rule": {[]limit.Descriptor{one("all", ""), one("any", "")}, false, map[string]hits.Totals{"shop all": {Within: 1}}},
		"an unlimited rule": {[]limit.Descriptor{one("all", ""), one("vip", "")}, false,
			map[string]hits.Totals{"shop vip": {Within: 1}}},
		"each other": {[]limit.Descriptor{one("left", ""), one("right", "")}, false, map[string]hits.Totals{}},
		"a rule that a request overrides replaces nothing": {[]limit.Descriptor{overridden, one("any", "")}, true,
			map[string]hits.Totals{"shop vip": {Within: 1}, "shop any": {Over: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, recorder := newLimiterWith(t, limit.Options{}, replacing)
			c := ask(t, l, "shop", 1, tc.asks...)
			if got := recorded(recorder); c.Over != tc.over || !maps.Equal(got, tc.want) {
				t.Errorf("over %v, recorded %+v; want %v, %+v", c.Over, got, tc.over, tc.want)
			}
			for i, d := range tc.asks {
				if s := c.Statuses[i]; !tc.over && d.Entries[0].Key != "vip" && d.Entries[0].Key != "all" && d.Entries[0].Key != "item" && (s.Limit != nil || s.Unlimited) {
					t.Errorf("%s is shown as limited: %+v; what is replaced is as good as no limit", d.Entries[0].Key, s)
				}
			}
			c.Reset()
			fill(c, "x")
			c.Descriptors[0].Entries[0].Key = "any"
			if err := l.Decide(t.Context(), c); err != nil || !c.Over {
				t.Errorf("the next request of this call: over %v, %v; a request replaces limits of its own only", c.Over, err)
			}
		})
	}
}

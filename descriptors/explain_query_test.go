package descriptors_test

import (
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// Anybody evades a limit on a path by ?x=1 if Envoy sends the query string too: whoever asks why must hear it.
func TestExplainSaysThatAQueryStringKeepsARuleFromApplying(t *testing.T) {
	c := parse(t, `domain: shop
descriptors:
- key: path
  rate_limit: {requests_per_unit: 9, unit: minute}
- key: path
  value: /pay
  rate_limit: {requests_per_unit: 1, unit: minute}
- key: user
  descriptors:
  - key: path
    value: /v1/*/export
    rate_limit: {requests_per_unit: 1, unit: minute}
  - {key: path, value: "/search?q=*", rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: path, value: /open/*}
`)
	const remedy = ` would apply: have Envoy send paths without it, as "Paths and query strings" in FORMAT.md says.`
	for _, test := range []struct {
		d    descriptors.Descriptor
		want string
	}{
		{descriptors.Descriptor{{"user", "ann"}, {"path", "/v1/a/export?x=1"}},
			"No rule applies: below user (shop.yaml:8) nothing fits path=/v1/a/export?x=1. Without the query string of " +
				"path=/v1/a/export?x=1, rule user/path=/v1/*/export (shop.yaml:10)" + remedy},
		{descriptors.Descriptor{{"path", "/pay?"}},
			"Rule path (shop.yaml:3) applies. Without the query string of path=/pay?, rule path=/pay (shop.yaml:5)" + remedy},
		{descriptors.Descriptor{{"path", "/other?x=1"}}, "Rule path (shop.yaml:3) applies."},
		{descriptors.Descriptor{{"user", "ann"}, {"path", "/search?q=1"}}, "Rule user/path=/search?q=* (shop.yaml:13) applies."},
		{descriptors.Descriptor{{"user", "ann"}, {"path", "/open/x?y"}},
			"No rule applies: path=/open/* (shop.yaml:14) has no limit, so it lets through what it matches."},
	} {
		if got := c.Explain("shop", test.d).Reason; got != test.want {
			t.Errorf("%v\n got %s\nwant %s", test.d, got, test.want)
		}
	}
}

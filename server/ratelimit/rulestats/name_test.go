package rulestats

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

func TestMetricNamesMatchRatelimit(t *testing.T) {
	c := fixture.Config(t, `
domain: default/eg/http
descriptors:
- {key: user, value: ann, rate_limit: &limit {requests_per_unit: 1, unit: day}}
- {key: plain, rate_limit: *limit}
- {key: starred, value: "a*", rate_limit: *limit}
- {key: told, value: "t*", value_to_metric: true, rate_limit: *limit}
- {key: value, value_to_metric: true, rate_limit: *limit}
- {key: shared, value: "files/*", share_threshold: true, value_to_metric: true, rate_limit: *limit}
- {key: "k*", value: v, detailed_metric: true, rate_limit: *limit}
- {key: address, value: "0.0.0.0/0", rate_limit: *limit}
- key: route
  value: "a:b|c=d"
  descriptors:
  - {key: remote_address, value_to_metric: true, rate_limit: *limit}
  - key: detail
    descriptors:
    - {key: last, detailed_metric: true, rate_limit: *limit}
`)
	for _, tc := range []struct {
		descriptor, name, other string
	}{
		{"user=ann", "user_ann", "user_ann"},
		{"plain=x", "plain", "plain"},
		{"starred=abc", "starred_a*", "starred_a*"},
		{"told=tea", "told_tea", "told_OTHER"},
		{"value=x.y", "value_x.y", "value_OTHER"},
		{"value=", "value", "value_OTHER"},
		{"value=a\nb:1|c\x7f", "value_a_b_1_c_", "value_OTHER"},
		{"value=\xff", "value__", "value_OTHER"},
		{"shared=files/b", "shared_files/*", "shared_files/*"},
		{"kick=v", "kick_v", "k*_v"},
		{"address=0.0.0.0/0", "address_0_0_0_0/0", "address_0_0_0_0/0"},
		{"route=a:b|c=d,remote_address=172.18.0.1", "route_a_b_c=d.remote_address_172_18_0_1", "route_a_b_c=d.remote_address_OTHER"},
		{"route=a:b|c=d,detail=1,last=2", "route_a_b_c=d.detail_1.last_2", "route_a_b_c=d.detail_OTHER.last_OTHER"},
	} {
		d, err := descriptors.ParseDescriptor(tc.descriptor)
		if err != nil {
			t.Fatal(err)
		}
		rule := c.Match("default/eg/http", d).Rule
		if rule == nil {
			t.Errorf("%s matches no rule", tc.descriptor)
			continue
		}
		if got, want := ruleName(rule, d, "", false), "default/eg/http."+tc.name; got != want {
			t.Errorf("%q counts as %q, want %q", tc.descriptor, got, want)
		}
		if got, want := ruleName(rule, nil, "OTHER", false), "default/eg/http."+tc.other; got != want {
			t.Errorf("other values of the rule of %q count as %q, want %q", tc.descriptor, got, want)
		}
	}
}

func TestSanitizedDotsAreOnlyThoseOfDomains(t *testing.T) {
	c := fixture.Config(t, "domain: a.b\ndescriptors:\n- {key: host.name, value: c.d, value_to_metric: true, rate_limit: {requests_per_unit: 20, unit: hour}}\n")
	d := descriptors.Descriptor{{Key: "host.name", Value: "c.d"}}
	for _, got := range []string{ruleName(c.Match("a.b", d).Rule, d, "", true), overrideName("a.b", d, true)} {
		if got != "a.b.host_name_c_d" {
			t.Errorf("the name is %s, want a.b.host_name_c_d", got)
		}
	}
}

package server

import (
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

const quotas = `
- {key: small, quota_mode: true, message: small is spent, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: large, quota_mode: true, rate_limit: {requests_per_unit: 100, unit: hour}}
- {key: spent, quota_mode: true, message: spent is spent, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: tried, quota_mode: true, shadow_mode: true, rate_limit: {requests_per_unit: 0, unit: hour}}
- {key: gift, quota_mode: true, rate_limit: {unlimited: true}}
- {key: open, rate_limit: {requests_per_unit: 100, unit: hour}}
- {key: closed, message: closed, rate_limit: {requests_per_unit: 0, unit: hour}}
`

func TestQuotasRefuseOnlyTogether(t *testing.T) {
	for _, tc := range []struct {
		name   string
		global bool // QUOTA_MODE
		keys   []string
		over   bool
		body   string
	}{
		{"one quota, over", false, []string{"small"}, true, "small is spent"},
		{"one of two", false, []string{"small", "large"}, false, ""},
		{"all of two", false, []string{"small", "spent"}, true, "small is spent"},
		{"a shadow rule is never over", false, []string{"small", "tried"}, false, ""},
		{"what is unlimited is no quota", false, []string{"small", "gift"}, true, "small is spent"},
		{"what no rule matches is no quota", false, []string{"small", "nobody"}, true, "small is spent"},
		{"a limit with room does not help a quota", false, []string{"small", "open"}, true, "small is spent"},
		{"a limit that is over refuses alone, in its own words", false, []string{"small", "large", "closed"}, true, "closed"},
		{"with QUOTA_MODE limits are quotas", true, []string{"closed", "open"}, false, ""},
		{"with QUOTA_MODE all over", true, []string{"closed", "small"}, true, "closed"},
		{"with QUOTA_MODE what no rule matches is not over", true, []string{"closed", "nobody"}, false, ""},
		{"with QUOTA_MODE what is unlimited does not help", true, []string{"closed", "gift"}, true, "closed"},
		{"with QUOTA_MODE nothing is over", true, []string{"nobody"}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := startWith(t, Config{}, limit.Options{Algorithm: descriptors.SlidingWindow, Quota: tc.global}, rls.Options{})
			r.apply(t, "domain: shop\ndescriptors:\n"+quotas)
			got := asked(t, ratelimit.NewRateLimitServiceClient(r.conn), shopping(tc.keys...))
			if over := got.OverallCode == ratelimit.RateLimitResponse_OVER_LIMIT; over != tc.over || string(got.RawBody) != tc.body {
				t.Errorf("%v: %v with body %q; want over %v with %q", tc.keys, got.OverallCode, got.RawBody, tc.over, tc.body)
			}
			for i, key := range tc.keys {
				over := key == "small" || key == "spent" || key == "closed"
				if s := got.Statuses[i]; (s.Code == ratelimit.RateLimitResponse_OVER_LIMIT) != over {
					t.Errorf("%s says %v; a quota's own status is over when it is, whatever becomes of the request", key, s.Code)
				}
			}
		})
	}
}

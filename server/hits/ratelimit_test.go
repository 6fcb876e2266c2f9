package hits

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

// The first rows have the numbers of envoyproxy/ratelimit's own tests: after a switch of programs, counters must continue
// the same curves. TotalHits has all hits in every row.
func TestTotalsCountHitsLikeRatelimit(t *testing.T) {
	const always = descriptors.ChargeAlways
	rules := fixture.Config(t, "domain: shop\ndescriptors:\n- {key: user, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	known := backend.Decision{Source: backend.FromDenyCache}
	for _, tc := range []struct {
		limit, before, hits uint64
		charge              descriptors.Charge
		decision            backend.Decision // Allowed by the limit, after Before hits
		shadow              bool
		want                [rulestats.Statistics]uint64
	}{
		{15, 10, 1, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.WithinLimit: 1}},
		{15, 12, 1, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.WithinLimit: 1, rulestats.NearLimit: 1}},
		{15, 15, 1, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.OverLimit: 1, rulestats.ShadowMode: 1}},
		{8, 5, 2, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.WithinLimit: 2, rulestats.NearLimit: 1}},
		{20, 16, 3, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.WithinLimit: 3, rulestats.NearLimit: 3}},
		{20, 19, 3, always, backend.Decision{}, true, [rulestats.Statistics]uint64{rulestats.NearLimit: 1, rulestats.OverLimit: 2, rulestats.ShadowMode: 2}},
		{20, 15, 7, always, backend.Decision{}, false, [rulestats.Statistics]uint64{rulestats.NearLimit: 4, rulestats.OverLimit: 2}},
		{10, 27, 3, always, backend.Decision{}, false, [rulestats.Statistics]uint64{rulestats.OverLimit: 3}},
		{0, 0, 2, always, backend.Decision{}, false, [rulestats.Statistics]uint64{rulestats.OverLimit: 2}},
		{20, 1, 0, always, backend.Decision{}, false, [rulestats.Statistics]uint64{}},
		{20, 19, 3, descriptors.ChargeAdmitted, backend.Decision{}, false, [rulestats.Statistics]uint64{rulestats.OverLimit: 3}},
		{20, 18, 3, always, known, false, [rulestats.Statistics]uint64{rulestats.OverLimit: 3, rulestats.OverLimitWithLocalCache: 3}},
		{20, 21, 3, always, known, true, [rulestats.Statistics]uint64{rulestats.OverLimit: 3, rulestats.OverLimitWithLocalCache: 3, rulestats.ShadowMode: 3}},
	} {
		check := &backend.Check{Limits: []descriptors.Limit{{Requests: tc.limit}}, Hits: tc.hits, Charge: tc.charge}
		tc.decision.Before, tc.decision.Allowed = tc.before, tc.before+tc.hits <= tc.limit
		r := New(0)
		r.Ratelimit = rulestats.New(false)
		c := counterAt(r.Table(rules), rules, "shop", "user", "ann")
		c.Record(check, &tc.decision, Modes{NearRatio: 0.8, Shadow: tc.shadow})
		tc.want[rulestats.TotalHits] = tc.hits
		if got := r.Ratelimit.Totals()["shop.user"]; got != tc.want {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}

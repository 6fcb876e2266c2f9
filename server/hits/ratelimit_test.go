package hits

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

// The figures of the first rows are those of envoyproxy/ratelimit's own tests: the counters of either program are to draw
// one curve. TotalHits are all hits in every row.
func TestTotalsCountHitsLikeRatelimit(t *testing.T) {
	const always = descriptors.ChargeAlways
	known := backend.Decision{Source: backend.FromDenyCache}
	for _, tc := range []struct {
		limit, before, hits uint64
		charge              descriptors.Charge
		decision            backend.Decision // Allowed is what the limit says, Before before
		shadow              bool
		want                [Statistics]uint64
	}{
		{15, 10, 1, always, backend.Decision{}, true, [Statistics]uint64{WithinLimit: 1}},
		{15, 12, 1, always, backend.Decision{}, true, [Statistics]uint64{WithinLimit: 1, NearLimit: 1}},
		{15, 15, 1, always, backend.Decision{}, true, [Statistics]uint64{OverLimit: 1, ShadowMode: 1}},
		{8, 5, 2, always, backend.Decision{}, true, [Statistics]uint64{WithinLimit: 2, NearLimit: 1}},
		{20, 16, 3, always, backend.Decision{}, true, [Statistics]uint64{WithinLimit: 3, NearLimit: 3}},
		{20, 19, 3, always, backend.Decision{}, true, [Statistics]uint64{NearLimit: 1, OverLimit: 2, ShadowMode: 2}},
		{20, 15, 7, always, backend.Decision{}, false, [Statistics]uint64{NearLimit: 4, OverLimit: 2}},
		{10, 27, 3, always, backend.Decision{}, false, [Statistics]uint64{OverLimit: 3}},
		{0, 0, 2, always, backend.Decision{}, false, [Statistics]uint64{OverLimit: 2}},
		{20, 1, 0, always, backend.Decision{}, false, [Statistics]uint64{}},
		{20, 19, 3, descriptors.ChargeAdmitted, backend.Decision{}, false, [Statistics]uint64{OverLimit: 3}},
		{20, 18, 3, always, known, false, [Statistics]uint64{OverLimit: 3, OverLimitWithLocalCache: 3}},
		{20, 21, 3, always, known, true, [Statistics]uint64{OverLimit: 3, OverLimitWithLocalCache: 3, ShadowMode: 3}},
	} {
		check := &backend.Check{Limits: []descriptors.Limit{{Requests: tc.limit}}, Hits: tc.hits, Charge: tc.charge}
		tc.decision.Before, tc.decision.Allowed = tc.before, tc.before+tc.hits <= tc.limit
		c := spot{Counter: &Counter{ratelimit: new(ratelimitCounters), recorder: New(0)}}
		c.Record(check, &tc.decision, Modes{NearRatio: 0.8, Shadow: tc.shadow})
		tc.want[TotalHits] = tc.hits
		for s, want := range tc.want {
			if got := c.ratelimit.totals[s].Load(); got != want {
				t.Errorf("%+v: %s is %d, want %d", tc, Statistic(s), got, want)
			}
		}
	}
}

func TestKnownValuesAndOwnLimitsAllocateNothing(t *testing.T) {
	r := New(0)
	r.CountAsRatelimit(false)
	rules := fixture.Config(t, "domain: shop\ndescriptors:\n- {key: user, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	s := at(r.Table(rules), rules, "shop", "user", "ann")
	for _, own := range []bool{false, true} {
		e := &Event{Rule: s.rule, Descriptor: s.d, Override: own, Check: ten(1), Decision: degraded}
		if n := testing.AllocsPerRun(100, func() { s.Counter.ratelimitOf(e) }); n != 0 {
			t.Errorf("with a limit of its own: %v: finding a known name allocates %v times, want none", own, n)
		}
	}
}

// Names are kept under a cap, and a rule that goes takes nothing with it: a sum that went down would look like a restart.
func TestTotalsOfRatelimitOutliveTheirRules(t *testing.T) {
	r := New(0)
	r.CountAsRatelimit(false)
	rules := fixture.Config(t, "domain: shop\ndescriptors:\n"+
		"- {key: user, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"+
		"- {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	none := fixture.Config(t, "domain: shop\ndescriptors: []\n")
	want := map[string]uint64{"shop.user___other__": 150, "shop.path": 3, "shop.__other__": 153, "shop.a_x.1_b": 3}
	for i := range MaxRatelimitValues {
		want[fmt.Sprint("shop.user_u", i)], want[fmt.Sprint("shop.path_", i)] = 3, 3
	}
	now := noon
	for range 3 {
		table := r.Table(rules)
		count := func(key, value string) { at(table, rules, "shop", key, value).Record(ten(1), degraded, modes) }
		own := func(key, value string) {
			s := at(table, rules, "shop", key, value)
			s.Counter.Record(&Event{Rule: s.rule, Descriptor: s.d, Override: true, Check: ten(1), Decision: degraded}, modes)
		}
		for i := range MaxRatelimitValues + 50 {
			count("user", fmt.Sprint("u", i))
			own("path", fmt.Sprint(i))
		}
		count("path", "/")
		own("a:x.1", "b")
		own("a", strings.Repeat("b", maxValue))
		r.CountUnknownDomain()
		r.Table(none)
		for range 4 { // what is gone is forgotten
			now = now.Add(byrule.Grace)
			r.Drain(now, func(history.ID, uint64) {})
		}
	}
	got := make(map[string]uint64)
	for name, sum := range r.RatelimitTotals() {
		got[name] = sum[TotalHits]
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := r.NotFound(); n != 3 {
		t.Errorf("%d descriptors had a domain that is not there, want 3", n)
	}
	if n := len(r.rules.All()); n != 2 {
		t.Errorf("%d rules have counters, want only what no rule matched, and no domain", n)
	}
	r.ratelimit.byName = make(map[string]*ratelimitCounters, maxNames)
	for i := range maxNames {
		r.ratelimit.byName[strconv.Itoa(i)] = new(ratelimitCounters)
	}
	if a, b := r.ratelimit.of("more"), r.ratelimit.of("yet more"); a != b || len(r.ratelimit.byName) != maxNames+1 {
		t.Errorf("%d names are kept, want %d, and one for all others", len(r.ratelimit.byName), maxNames)
	}
}

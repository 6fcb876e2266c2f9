package stats

import (
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
)

func TestHitsTotalCountsEachHitOnce(t *testing.T) {
	c := fixture.Config(t, "domain: shop\ndescriptors:\n"+
		"- {key: user, value: \"a/\\\"b\", detailed_metric: true, rate_limit: {requests_per_unit: 1, unit: day}}")
	recorder, m := hits.New(100), New("test")
	m.RegisterHits(recorder)
	table := recorder.Table(c)
	d := descriptors.Descriptor{{Key: "user", Value: `a/"b`}}
	rule := c.Match("shop", d).Rule
	counter := table.Counter(rule, "shop")
	record := func(n uint64, shadow bool, decision backend.Decision) {
		check := backend.Check{Limits: []descriptors.Limit{{Requests: 10}}, Hits: n, Charge: descriptors.ChargeAdmitted}
		counter.Record(&hits.Event{Rule: rule, Descriptor: d, Check: &check, Decision: &decision}, hits.Modes{NearRatio: 0.8, Shadow: shadow})
	}
	record(5, true, backend.Decision{Allowed: true, Before: 5})
	record(3, true, backend.Decision{})
	record(2, false, backend.Decision{})
	record(1, true, backend.Decision{Source: backend.FromPolicy})
	table.Counter(nil, "nowhere").RecordUnlimited(nil, d, 7)

	const why = "the sum over outcomes must be all hits, and each series is there before its first, or increase() would not see that"
	m.expect(t, why, "weir_hits_total{", `
weir_hits_total{domain="__unknown__",outcome="degraded",path="__unmatched__"} 0
weir_hits_total{domain="__unknown__",outcome="over",path="__unmatched__"} 0
weir_hits_total{domain="__unknown__",outcome="shadow",path="__unmatched__"} 0
weir_hits_total{domain="__unknown__",outcome="within",path="__unmatched__"} 7
weir_hits_total{domain="shop",outcome="degraded",path="__unmatched__"} 0
weir_hits_total{domain="shop",outcome="degraded",path="user=a%2F\"b"} 1
weir_hits_total{domain="shop",outcome="over",path="__unmatched__"} 0
weir_hits_total{domain="shop",outcome="over",path="user=a%2F\"b"} 2
weir_hits_total{domain="shop",outcome="shadow",path="__unmatched__"} 0
weir_hits_total{domain="shop",outcome="shadow",path="user=a%2F\"b"} 3
weir_hits_total{domain="shop",outcome="within",path="__unmatched__"} 0
weir_hits_total{domain="shop",outcome="within",path="user=a%2F\"b"} 5`)
	m.expect(t, why, "weir_near_hits_total{", `
weir_near_hits_total{domain="__unknown__",path="__unmatched__"} 0
weir_near_hits_total{domain="shop",path="__unmatched__"} 0
weir_near_hits_total{domain="shop",path="user=a%2F\"b"} 2`)
	// NEAR_LIMIT_RATIO is a setting, so the help must name it, not only its default.
	const help = "# HELP weir_near_hits_total Hits within the limit, but above NEAR_LIMIT_RATIO of it (0.8 unless set)."
	if len(m.scrapeLines(help)) != 1 {
		t.Errorf("/metrics lacks %s", help)
	}
}

package hits

import (
	"fmt"
	"maps"
	"testing"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// The figures are those of envoyproxy/ratelimit's own tests: the counters of either program are to draw one curve.
func TestATallyHasTheArithmeticOfEnvoyproxyRatelimit(t *testing.T) {
	for _, tc := range []struct {
		limit, hits, after, within, near, over uint64
	}{
		{15, 1, 11, 1, 0, 0},
		{15, 1, 13, 1, 1, 0},
		{15, 1, 16, 0, 0, 1},
		{20, 3, 5, 3, 0, 0},
		{8, 2, 7, 2, 1, 0},
		{20, 3, 19, 3, 3, 0},
		{20, 3, 22, 0, 1, 2},
		{20, 7, 22, 0, 4, 2},
		{10, 3, 30, 0, 0, 3},
	} {
		v := Verdict{Requests: tc.limit, Before: tc.after - tc.hits, Hits: tc.hits, NearRatio: DefaultNear,
			Allowed: tc.after <= tc.limit, Always: true, Shadow: true}
		tally := new(Tally)
		tally.Ask(v.Hits)
		(&Counter{tally: tally}).Record(v)
		var got [Kinds]uint64
		tally.addTo(&got)
		want := [Kinds]uint64{TotalHits: tc.hits, WithinLimit: tc.within, NearLimit: tc.near, OverLimit: tc.over, ShadowMode: tc.over}
		if got != want {
			t.Errorf("limit %d, %d hits, %d after them: %v, want %v", tc.limit, tc.hits, tc.after, got, want)
		}
	}
}

func TestATallyCountsADenialThatChargesNothingAsOver(t *testing.T) {
	for _, tc := range []struct {
		verdict Verdict
		want    [Kinds]uint64
	}{
		{Verdict{Requests: 20, Before: 19, Hits: 3}, [Kinds]uint64{OverLimit: 3}},
		{Verdict{Requests: 20, Before: 20, Hits: 3, Shadow: true}, [Kinds]uint64{OverLimit: 3, ShadowMode: 3}},
		{Verdict{Requests: 20, Before: 21, Hits: 3, Always: true, Remembered: true}, [Kinds]uint64{OverLimit: 3, OverLimitWithLocalCache: 3}},
		{Verdict{Requests: 20, Before: 1, Hits: 3, Always: true, Remembered: true}, [Kinds]uint64{OverLimit: 3, OverLimitWithLocalCache: 3}},
		{Verdict{Requests: 20, Before: 1, Hits: 0, Always: true}, [Kinds]uint64{}},
		{Verdict{Requests: 0, Before: 0, Hits: 2, Always: true}, [Kinds]uint64{OverLimit: 2}},
	} {
		tc.verdict.NearRatio = DefaultNear
		tally := new(Tally)
		(&Counter{tally: tally}).Record(tc.verdict)
		var got [Kinds]uint64
		if tally.addTo(&got); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.verdict, got, tc.want)
		}
	}
	var none *Tally
	none.Ask(1)
	none.GiveBack(1)
	new(Counter).Record(Verdict{Hits: 1})
}

// Names are kept under a cap, and a rule that goes takes nothing with it: a sum that went down would look like a restart.
func TestTalliesOfRulesThatAreGoneStay(t *testing.T) {
	r := New(0)
	r.KeepTallies()
	rules := parse(t, "domain: shop\ndescriptors:\n"+
		"- {key: user, value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 1}}\n"+
		"- {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n")
	none := parse(t, "domain: shop\ndescriptors: []\n")
	want := map[string]uint64{"shop.user___other__": 150, "shop.path": 3, "shop.__unmatched__": 3}
	for i := range DefaultValues {
		want[fmt.Sprint("shop.user_u", i)] = 3
	}
	now := noon
	for range 3 {
		table := r.Table(rules)
		count := func(key, value string) {
			d := descriptors.Descriptor{{Key: key, Value: value}}
			table.Counter(rules.Match("shop", d).Rule, "shop", d).Tally().Ask(1)
		}
		for i := range DefaultValues + 50 {
			count("user", fmt.Sprint("u", i))
		}
		count("path", "/")
		count("nothing", "")
		table.Missed("nowhere")
		table.Missed("shop")
		r.Table(none)
		for range 4 { // what is gone is forgotten
			now = now.Add(2 * grace)
			r.Drain(now, func(history.ID, uint64) {})
		}
	}
	got := make(map[string]uint64)
	for name, sum := range r.Tallies() {
		got[name] = sum[TotalHits]
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := r.NotFound(); n != 3 {
		t.Errorf("%d descriptors had a domain that is not there, want 3", n)
	}
	if n := len(r.all()); n != 1 {
		t.Errorf("%d rules have counters, want only what no rule matched", n)
	}
}

func TestTheNamesOfRulesThatAreGoneAreBounded(t *testing.T) {
	var p past
	for i := range 3 * maxPast {
		tally := &Tally{name: fmt.Sprint("shop.r", i)}
		tally.Ask(1)
		p.keep(tally)
	}
	sum, other := uint64(0), p["__other__.__other__"]
	for _, totals := range p {
		sum += totals[TotalHits]
	}
	if len(p) != maxPast+1 || other[TotalHits] != 2*maxPast || sum != 3*maxPast {
		t.Errorf("%d names hold %d hits, %d of them under that of all others: want %d, all and the rest", len(p), sum,
			other[TotalHits], maxPast+1)
	}
}

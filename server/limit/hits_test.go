package limit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

// totals are what the history keeps, by domain and path; ratelimit are the numbers of envoyproxy/ratelimit's statistics, by the
// rule's name.
type (
	totals    = map[string]hits.Totals
	ratelimit = map[string][rulestats.Statistics]uint64
)

// recorded returns what the recorder has, by domain and path.
func recorded(r *hits.Recorder) totals {
	all := make(totals)
	for _, t := range r.Totals() {
		name := t.Domain + " " + t.Path
		t.Domain, t.Path = "", ""
		if t != (hits.Totals{}) {
			all[name] = t
		}
	}
	return all
}

func ratelimitOf(total, within, near, over uint64) [rulestats.Statistics]uint64 {
	return [rulestats.Statistics]uint64{rulestats.TotalHits: total, rulestats.WithinLimit: within, rulestats.NearLimit: near, rulestats.OverLimit: over}
}

// The history and envoyproxy/ratelimit's statistics differ in a charge that straddles the limit, and in what no rule has.
func TestOutcomeOfHitsIsRecorded(t *testing.T) {
	shadowed := ratelimitOf(2, 1, 1, 1)
	shadowed[rulestats.ShadowMode] = 1
	many := make([]limit.Descriptor, 300)
	others := ratelimit{"shop.tenant___other__": ratelimitOf(200, 200, 0, 0)}
	for i := range many {
		many[i] = one("tenant", fmt.Sprint("t", i))
		if i < rulestats.MaxValues {
			others[fmt.Sprint("shop.tenant_t", i)] = ratelimitOf(1, 1, 0, 0)
		}
	}
	ann, minutely := one("user", "ann"), override(3, descriptors.Minute, 1)
	annPays := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/pay"}}}
	for _, tc := range []struct {
		name      string
		domain    string
		addend    uint32
		asks      []limit.Descriptor // one request each
		totals    totals
		ratelimit ratelimit
	}{
		{"admitted", "shop", 3, []limit.Descriptor{ann}, totals{"shop user": {Within: 3}}, ratelimit{"shop.user": ratelimitOf(3, 3, 0, 0)}},
		{"a request without an addend is a hit", "shop", 0, []limit.Descriptor{ann},
			totals{"shop user": {Within: 1}}, ratelimit{"shop.user": ratelimitOf(1, 1, 0, 0)}},
		{"near is above 8 of 10", "shop", 5, []limit.Descriptor{ann, ann},
			totals{"shop user": {Within: 10, Near: 2}}, ratelimit{"shop.user": ratelimitOf(10, 10, 2, 0)}},
		{"denied as a whole, and not charged", "shop", 6, []limit.Descriptor{ann, ann},
			totals{"shop user": {Within: 6, Over: 6}}, ratelimit{"shop.user": ratelimitOf(12, 6, 0, 6)}},
		{"denied, though charged", "shop", 1, []limit.Descriptor{with(one("bytes", ""), own(1500)), one("bytes", "")},
			totals{"shop bytes": {Within: 1000, Near: 200, Over: 501}}, ratelimit{"shop.bytes": ratelimitOf(1501, 0, 200, 501)}},
		{"a fixed window", "shop", 3, []limit.Descriptor{one("epoch", ""), one("epoch", "")},
			totals{"shop epoch": {Within: 2, Near: 1, Over: 4}}, ratelimit{"shop.epoch": ratelimitOf(6, 0, 1, 4)}},
		{"near is above 8 of a burst of 10", "shop", 9, []limit.Descriptor{one("bucket", "")},
			totals{"shop bucket": {Within: 9, Near: 1}}, ratelimit{"shop.bucket": ratelimitOf(9, 9, 1, 0)}},
		{"denied, though charged, up to the burst", "shop", 1, []limit.Descriptor{with(one("bucket", ""), own(15))},
			totals{"shop bucket": {Within: 10, Near: 2, Over: 5}}, ratelimit{"shop.bucket": ratelimitOf(15, 0, 2, 5)}},
		{"a rule of two levels", "shop", 1, []limit.Descriptor{annPays},
			totals{"shop user/path=%2Fpay": {Within: 1}}, ratelimit{"shop.user.path_/pay": ratelimitOf(1, 1, 0, 0)}},
		{"a shadow rule that is over", "shop", 1, []limit.Descriptor{one("shadow", ""), one("shadow", "")},
			totals{"shop shadow": {Within: 1, Near: 1, Shadow: 1}}, ratelimit{"shop.shadow": shadowed}},
		{"unlimited", "shop", 4, []limit.Descriptor{one("free", "")}, totals{"shop free": {Within: 4}}, ratelimit{}},
		{"no rule", "shop", 4, []limit.Descriptor{one("nobody", ""), one("trusted", "yes"), {}, one("", "x")},
			totals{"shop __unmatched__": {Within: 16}}, ratelimit{}},
		{"no domain", "nowhere", 4, []limit.Descriptor{ann, {}}, totals{"__unknown__ __unmatched__": {Within: 8}}, ratelimit{}},
		{"an override of a rule", "shop", 2, []limit.Descriptor{with(ann, minutely), with(ann, minutely)},
			totals{"shop user": {Within: 2, Over: 2}}, ratelimit{"shop.user_ann": ratelimitOf(4, 2, 0, 2)}},
		{"an override without a rule", "shop", 2, []limit.Descriptor{with(one("no", ""), minutely), with(one("no", ""), minutely)},
			totals{"shop __unmatched__": {Within: 2, Over: 2}}, ratelimit{"shop.no": ratelimitOf(4, 2, 0, 2)}},
		{"an override without a domain", "nowhere", 2, []limit.Descriptor{with(ann, minutely)},
			totals{"__unknown__ __unmatched__": {Within: 2}}, ratelimit{}},
		{"an override of a shadow rule is none", "shop", 1, []limit.Descriptor{with(one("shadow", ""), override(0, descriptors.Day, 1))},
			totals{"shop shadow": {Over: 1}}, ratelimit{"shop.shadow": ratelimitOf(1, 0, 0, 1)}},
		{"a look", "shop", 1, []limit.Descriptor{with(ann, own(0)), with(one("free", ""), own(0)), with(one("no", ""), own(0))},
			totals{}, ratelimit{}},
		{"a refund", "shop", 1, []limit.Descriptor{with(ann, refund(3)), with(one("free", ""), refund(3)), with(one("no", ""), refund(1))},
			totals{}, ratelimit{"shop.user": {rulestats.TotalNegativeHits: 3}}},
		{"values are one to the totals, and told apart by ratelimit", "shop", 1, many, totals{"shop tenant": {Within: 300}}, others},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, recorder := newLimiterWith(t, limit.Options{}, shop)
			for _, d := range tc.asks {
				ask(t, l, tc.domain, tc.addend, d)
			}
			if got := recorded(recorder); !maps.Equal(got, tc.totals) {
				t.Errorf("recorded %+v; want %+v", got, tc.totals)
			}
			if got := recorder.Ratelimit.Totals(); !maps.Equal(got, tc.ratelimit) {
				t.Errorf("as ratelimit %v; want %v", got, tc.ratelimit)
			}
			unknown := uint64(0)
			if tc.domain == "nowhere" {
				unknown = uint64(len(tc.asks))
			}
			if got := recorder.Ratelimit.NotFound(); got != unknown {
				t.Errorf("%d descriptors had a domain that is not there, want %d", got, unknown)
			}
		})
	}
}

func TestHitsAdmittedByShadowAreNotOver(t *testing.T) {
	l, _, recorder := newLimiterWith(t, limit.Options{Shadow: true}, shop)
	for _, want := range []limit.Result{limit.OK, limit.Shadowed, limit.Shadowed} {
		c := ask(t, l, "shop", 6, one("user", "ann"))
		if got := c.Counted(); got != want || denied(c) || (c.Statuses[0].Outcome == limit.Over) != (want == limit.Shadowed) {
			t.Errorf("the result is %v, over %v with %+v; want %v: told to be refused, and let through", got, denied(c), c.Statuses[0], want)
		}
	}
	want, wantRatelimit := totals{"shop user": {Within: 6, Shadow: 12}}, ratelimit{"shop.user": ratelimitOf(18, 6, 0, 12)}
	if got, gotRatelimit := recorded(recorder), recorder.Ratelimit.Totals(); !maps.Equal(got, want) || !maps.Equal(gotRatelimit, wantRatelimit) {
		t.Errorf("recorded %+v and %v; want %+v and %v: the shadow mode of all is no rule's", got, gotRatelimit, want, wantRatelimit)
	}
}

func TestOnlyDenyingQuotasAreOver(t *testing.T) {
	for other, want := range map[string]hits.Totals{"q2": {Shadow: 2}, "closed": {Over: 2}} {
		l, _, recorder := newLimiterWith(t, limit.Options{}, refusing)
		c := ask(t, l, "shop", 2, one("q1", "a"), one(other, "a"))
		if got := recorded(recorder)["shop q1"]; got != want || denied(c) != (want.Over > 0) {
			t.Errorf("of a quota that is over beside %s: recorded %+v, refused %v; want %+v: it refuses nothing alone", other, got, denied(c), want)
		}
	}
}

// Whatever modes, policies and an unsteady store make of requests, each hit has one outcome, and only those of a
// refused request are over.
func TestEachHitHasExactlyOneOutcome(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 40))
	sometimes := func() bool { return random.IntN(4) == 0 }
	seen := hits.Totals{}
	for range 300 {
		store, _ := newStore(t)
		unsteady := partly{store, func(*backend.Check) bool { return random.IntN(10) == 0 }}
		policy := descriptors.Policy(random.IntN(descriptors.Policies))
		l, recorder := newLimiterOn(t, guard.New(unsteady, guard.Config{Policy: policy, Local: store, Replicas: func() int { return 1 }}),
			limit.Options{Shadow: sometimes(), Quota: sometimes(), RefundOthers: sometimes()}, refusing)
		var asked, over uint64
		for range 30 {
			c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: uint32(random.IntN(3))}}
			for range 1 + random.IntN(3) {
				d := one([]string{"user", "shadow", "q1", "q2", "closed", "free", "none"}[random.IntN(7)], "a")
				n := max(1, uint64(c.Request.Hits))
				if sometimes() {
					n = random.Uint64N(6)
					d = with(d, own(n))
				}
				c.Descriptors, asked = append(c.Descriptors, d), asked+n
			}
			err := l.Decide(t.Context(), c)
			sum := hits.Totals{}
			for _, one := range recorded(recorder) {
				sum.Within, sum.Over, sum.Shadow = sum.Within+one.Within, sum.Over+one.Over, sum.Shadow+one.Shadow
				sum.Degraded, sum.Near = sum.Degraded+one.Degraded, sum.Near+one.Near
			}
			if all := sum.Within + sum.Over + sum.Shadow + sum.Degraded; all != asked || sum.Near > sum.Within {
				t.Fatalf("recorded %+v, which are %d hits; want all %d, and no more near than within", sum, all, asked)
			}
			if sum.Over > over && !denied(c) {
				t.Fatalf("%+v passed (%v), and %d hits more are over; want none", c.Statuses, err, sum.Over-over)
			}
			over = sum.Over
			seen = hits.Totals{Within: max(seen.Within, sum.Within), Over: max(seen.Over, over), Shadow: max(seen.Shadow, sum.Shadow),
				Degraded: max(seen.Degraded, sum.Degraded), Near: max(seen.Near, sum.Near)}
		}
	}
	if seen.Within*seen.Over*seen.Shadow*seen.Degraded*seen.Near == 0 {
		t.Errorf("at most %+v; want some of each", seen)
	}
}

// Whatever no store has decided is degraded; what needs no store is decided all the same. What was asked is in the total:
// envoyproxy/ratelimit counts it before it asks.
func TestHitsWithoutAnAnswerAreDegraded(t *testing.T) {
	for _, policy := range []descriptors.Policy{descriptors.PolicyError, descriptors.PolicyDeny} {
		l, recorder := newLimiterOn(t, guard.New(away(t), guard.Config{Policy: policy}), limit.Options{}, shop)
		c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 2, Descriptors: []limit.Descriptor{
			one("user", "ann"), with(one("user", "bob"), own(0)), with(one("shadow", ""), refund(1)), one("closed", ""), one("free", ""),
		}}}
		if err := l.Decide(context.Background(), c); errors.Is(err, errAway) != (policy == descriptors.PolicyError) {
			t.Errorf("by policy %s the request gets %v; want the store's error by policy error alone", policy, err)
		}
		kept := totals{"shop user": {Degraded: 2}, "shop closed": {Degraded: 2}, "shop free": {Within: 2}}
		if got := recorded(recorder); !maps.Equal(got, kept) {
			t.Errorf("by policy %s: recorded %+v; want %+v", policy, got, kept)
		}
		want := ratelimit{"shop.user": {rulestats.TotalHits: 2}, "shop.closed": {rulestats.TotalHits: 2}, "shop.shadow": {rulestats.TotalNegativeHits: 1}}
		if got := recorder.Ratelimit.Totals(); !maps.Equal(got, want) {
			t.Errorf("by policy %s: as ratelimit %v; want %v", policy, got, want)
		}
	}
}

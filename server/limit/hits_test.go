package limit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// recorded returns what the recorder has, by domain and path.
func recorded(r *hits.Recorder) map[string]hits.Totals {
	all := make(map[string]hits.Totals)
	for _, t := range r.Totals() {
		name := t.Domain + " " + t.Path
		t.Domain, t.Path = "", ""
		all[name] = t
	}
	return all
}

func TestWhatBecomesOfHitsIsRecorded(t *testing.T) {
	type totals = map[string]hits.Totals
	for _, tc := range []struct {
		name   string
		domain string
		addend uint32
		asks   []limit.Descriptor // one request each
		want   totals
	}{
		{"admitted", "shop", 3, []limit.Descriptor{one("user", "ann")}, totals{"shop user": {Within: 3}}},
		{"a request without an addend is a hit", "shop", 0, []limit.Descriptor{one("user", "ann")}, totals{"shop user": {Within: 1}}},
		{"near is above 8 of 10", "shop", 5, []limit.Descriptor{one("user", "ann"), one("user", "ann")},
			totals{"shop user": {Within: 10, Near: 2}}},
		{"denied as a whole", "shop", 6, []limit.Descriptor{one("user", "ann"), one("user", "ann")},
			totals{"shop user": {Within: 6, Over: 6}}},
		{"denied, though charged", "shop", 1, []limit.Descriptor{with(one("bytes", ""), own(1500)), one("bytes", "")},
			totals{"shop bytes": {Within: 1000, Near: 200, Over: 501}}},
		{"near is above 8 of a burst of 10", "shop", 9, []limit.Descriptor{one("bucket", "")}, totals{"shop bucket": {Within: 9, Near: 1}}},
		{"denied, though charged, up to the burst", "shop", 1, []limit.Descriptor{with(one("bucket", ""), own(15))},
			totals{"shop bucket": {Within: 10, Near: 2, Over: 5}}},
		{"a shadow rule that is over", "shop", 1, []limit.Descriptor{one("shadow", ""), one("shadow", "")},
			totals{"shop shadow": {Within: 1, Near: 1, Over: 1, Shadow: 1}}},
		{"unlimited", "shop", 4, []limit.Descriptor{one("free", "")}, totals{"shop free": {Within: 4}}},
		{"no rule", "shop", 4, []limit.Descriptor{one("nobody", ""), one("trusted", "yes"), {}, one("", "x")},
			totals{"shop __unmatched__": {Within: 16}}},
		{"no domain", "nowhere", 4, []limit.Descriptor{one("user", "ann"), {}}, totals{"__unknown__ __unmatched__": {Within: 8}}},
		{"an override of a rule", "shop", 2, []limit.Descriptor{with(one("user", "ann"), override(3, descriptors.Minute, 1)),
			with(one("user", "ann"), override(3, descriptors.Minute, 1))}, totals{"shop user": {Within: 2, Over: 2}}},
		{"an override without a rule", "shop", 2, []limit.Descriptor{with(one("nobody", ""), override(3, descriptors.Minute, 1)),
			with(one("nobody", ""), override(3, descriptors.Minute, 1))}, totals{"shop __unmatched__": {Within: 2, Over: 2}}},
		{"an override without a domain", "nowhere", 2, []limit.Descriptor{with(one("a", ""), override(1, descriptors.Minute, 1))},
			totals{"__unknown__ __unmatched__": {Within: 2}}},
		{"an override of a shadow rule is none", "shop", 1, []limit.Descriptor{with(one("shadow", ""), override(0, descriptors.Day, 1))},
			totals{"shop shadow": {Over: 1}}},
		{"a look", "shop", 1, []limit.Descriptor{with(one("user", "ann"), own(0)), with(one("free", ""), own(0)), with(one("no", ""), own(0))}, totals{}},
		{"a refund", "shop", 1, []limit.Descriptor{with(one("user", "ann"), refund(3)), with(one("free", ""), refund(3)), with(one("no", ""), refund(1))}, totals{}},
		{"values are one to the totals", "shop", 1, []limit.Descriptor{one("tenant", "a"), one("tenant", "b")},
			totals{"shop tenant": {Within: 2}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, recorder := newRecordingLimiter(t)
			for _, d := range tc.asks {
				ask(t, l, tc.domain, tc.addend, d)
			}
			if got := recorded(recorder); !maps.Equal(got, tc.want) {
				t.Errorf("recorded %+v; want %+v", got, tc.want)
			}
		})
	}
}

// TestRatelimitsVectorsOfNear has the table that envoyproxy/ratelimit tests its own near_limit and over_limit by: a
// limit, a charge, and the count after it.
func TestRatelimitsVectorsOfNear(t *testing.T) {
	for _, v := range []struct{ requests, hits, after, near, over uint64 }{
		{15, 1, 11, 0, 0}, {15, 1, 13, 1, 0}, {15, 1, 16, 0, 1}, {20, 3, 5, 0, 0}, {8, 2, 7, 1, 0}, {20, 3, 19, 3, 0},
		{20, 3, 22, 1, 2}, {20, 7, 22, 4, 2}, {10, 3, 30, 0, 3},
	} {
		l, _, recorder := newLimiterWith(t, limit.Options{}, fmt.Sprintf("domain: shop\ndescriptors: [{key: k, rate_limit: "+
			"{requests_per_unit: %d, unit: hour, algorithm: fixed_window}}]", v.requests))
		ask(t, l, "shop", 1, with(one("k", ""), own(v.after-v.hits)))
		before := recorded(recorder)["shop k"]
		c := ask(t, l, "shop", uint32(v.hits), one("k", ""))
		got := recorded(recorder)["shop k"]
		got.Near, got.Over, got.Within = got.Near-before.Near, got.Over-before.Over, got.Within-before.Within
		if want := (hits.Totals{Within: v.hits - v.over, Near: v.near, Over: v.over}); got != want || c.Over != (v.after > v.requests) {
			t.Errorf("%d hits that bring a count to %d of %d: over %v, recorded %+v; want %+v", v.hits, v.after, v.requests, c.Over, got, want)
		}
	}
}

func TestTheShareThatIsNearCanBeChosen(t *testing.T) {
	l, _, recorder := newLimiterWith(t, limit.Options{NearRatio: 0.3}, shop)
	ask(t, l, "shop", 10, one("user", "ann"))
	want := map[string]hits.Totals{"shop user": {Within: 10, Near: 7}}
	if got := recorded(recorder); !maps.Equal(got, want) {
		t.Errorf("recorded %+v; want %+v, as 3 of 10 are not near", got, want)
	}
}

func TestWhatShadowModeLetsThroughIsRecordedAsOver(t *testing.T) {
	l, _, recorder := newLimiterWith(t, limit.Options{Shadow: true}, shop)
	for range 2 {
		c := ask(t, l, "shop", 6, one("user", "ann"))
		if c.Over {
			t.Error("a request is refused in shadow mode")
		}
	}
	c := ask(t, l, "shop", 6, one("user", "ann"))
	if got := c.Outcome(nil); got != limit.Shadowed || !c.Statuses[0].Over {
		t.Errorf("the outcome is %v with %+v; want it to be told that the request would be refused", got, c.Statuses[0])
	}
	want := map[string]hits.Totals{"shop user": {Within: 6, Over: 12, Shadow: 12}}
	if got := recorded(recorder); !maps.Equal(got, want) {
		t.Errorf("recorded %+v; want %+v", got, want)
	}
}

// Whatever no store has decided is degraded; what needs no store is decided all the same.
func TestHitsWithoutAnAnswerAreDegraded(t *testing.T) {
	store, err := counter.Open(counter.Config{Redis: redis.Config{
		URL: "127.0.0.1:1", Timeout: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	known, _ := newLimiter(t)
	recorder := hits.New(0)
	l := limit.New(store, limit.Options{Algorithm: descriptors.SlidingWindow}, recorder)
	l.Apply(known.Config())
	c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 2, Descriptors: []limit.Descriptor{
		one("user", "ann"), with(one("user", "bob"), own(0)), with(one("shadow", ""), refund(1)), one("closed", ""), one("free", ""),
	}}}
	if err := l.Decide(context.Background(), c); !errors.Is(err, counter.ErrUnavailable) {
		t.Fatalf("got %v; want an error, as nothing listens there", err)
	}
	want := map[string]hits.Totals{"shop user": {Degraded: 2}, "shop closed": {Degraded: 2}, "shop free": {Within: 2}}
	if got := recorded(recorder); !maps.Equal(got, want) {
		t.Errorf("recorded %+v; want %+v", got, want)
	}
}

func TestAReloadKeepsTheTotals(t *testing.T) {
	l, _, recorder := newRecordingLimiter(t)
	ask(t, l, "shop", 1, one("user", "ann"))
	l.Apply(l.Config())
	ask(t, l, "shop", 1, one("user", "ann"))
	want := map[string]hits.Totals{"shop user": {Within: 2}}
	if got := recorded(recorder); !maps.Equal(got, want) {
		t.Errorf("recorded %+v; want %+v, before and after a reload", got, want)
	}
}

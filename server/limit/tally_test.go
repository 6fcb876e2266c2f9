package limit_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// tallied are the numbers of envoyproxy/ratelimit's statistics, by the rule's name.
type tallied = map[string][hits.Kinds]uint64

// tallies are those that have hits.
func tallies(r *hits.Recorder) tallied {
	all := r.Tallies()
	maps.DeleteFunc(all, func(_ string, sum [hits.Kinds]uint64) bool { return sum == [hits.Kinds]uint64{} })
	return all
}

func TestHitsAreTalliedAsEnvoyproxyRatelimitDoes(t *testing.T) {
	over := func(total, within, near, over uint64) [hits.Kinds]uint64 {
		return [hits.Kinds]uint64{hits.TotalHits: total, hits.WithinLimit: within, hits.NearLimit: near, hits.OverLimit: over}
	}
	shadowed := over(2, 1, 1, 1)
	shadowed[hits.ShadowMode] = 1
	many := make([]limit.Descriptor, 300)
	others := tallied{"shop.tenant___other__": over(200, 200, 0, 0)}
	for i := range many {
		many[i] = one("tenant", fmt.Sprint("t", i))
		if i < hits.DefaultValues {
			others[fmt.Sprint("shop.tenant_t", i)] = over(1, 1, 0, 0)
		}
	}
	for _, tc := range []struct {
		name   string
		domain string
		addend uint32
		asks   []limit.Descriptor // one request each
		want   tallied
	}{
		{"admitted", "shop", 3, []limit.Descriptor{one("user", "ann")}, tallied{"shop.user": over(3, 3, 0, 0)}},
		{"near is above 8 of 10", "shop", 5, []limit.Descriptor{one("user", "ann"), one("user", "ann")}, tallied{"shop.user": over(10, 10, 2, 0)}},
		{"denied, and not charged", "shop", 6, []limit.Descriptor{one("user", "ann"), one("user", "ann")}, tallied{"shop.user": over(12, 6, 0, 6)}},
		{"denied, though charged", "shop", 1, []limit.Descriptor{with(one("bytes", ""), own(1500)), one("bytes", "")},
			tallied{"shop.bytes": over(1501, 0, 200, 501)}},
		{"a fixed window", "shop", 3, []limit.Descriptor{one("epoch", ""), one("epoch", "")}, tallied{"shop.epoch": over(6, 0, 1, 4)}},
		{"a rule of two levels", "shop", 1, []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/pay"}}}},
			tallied{"shop.user.path_/pay": over(1, 1, 0, 0)}},
		{"a shadow rule that is over", "shop", 1, []limit.Descriptor{one("shadow", ""), one("shadow", "")}, tallied{"shop.shadow": shadowed}},
		{"unlimited", "shop", 4, []limit.Descriptor{one("free", "")}, tallied{}},
		{"no rule", "shop", 4, []limit.Descriptor{one("nobody", ""), one("trusted", "yes"), {}, one("", "x")}, tallied{}},
		{"no domain", "nowhere", 4, []limit.Descriptor{one("user", "ann"), {}}, tallied{}},
		{"an override of a rule", "shop", 2, []limit.Descriptor{with(one("user", "ann"), override(3, descriptors.Minute, 1)),
			with(one("user", "ann"), override(3, descriptors.Minute, 1))}, tallied{"shop.user": over(4, 2, 0, 2)}},
		{"an override without a rule", "shop", 2, []limit.Descriptor{with(one("nobody", ""), override(3, descriptors.Minute, 1)),
			with(one("somebody", ""), override(1, descriptors.Minute, 1))}, tallied{"shop.__unmatched__": over(4, 2, 0, 2)}},
		{"an override without a domain", "nowhere", 2, []limit.Descriptor{with(one("a", ""), override(1, descriptors.Minute, 1))}, tallied{}},
		{"an override of a shadow rule is none", "shop", 1, []limit.Descriptor{with(one("shadow", ""), override(0, descriptors.Day, 1))},
			tallied{"shop.shadow": over(1, 0, 0, 1)}},
		{"a look", "shop", 1, []limit.Descriptor{with(one("user", "ann"), own(0)), with(one("closed", ""), own(0))}, tallied{}},
		{"a refund", "shop", 1, []limit.Descriptor{with(one("user", "ann"), refund(3)), with(one("free", ""), refund(3)), with(one("no", ""), refund(1))},
			tallied{"shop.user": {hits.TotalNegativeHits: 3}}},
		{"values that are told apart", "shop", 1, many, others},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, recorder := newRecordingLimiter(t)
			recorder.KeepTallies()
			for _, d := range tc.asks {
				ask(t, l, tc.domain, tc.addend, d)
			}
			if got := tallies(recorder); !maps.Equal(got, tc.want) {
				t.Errorf("%v; want %v", got, tc.want)
			}
			unknown := uint64(0)
			if tc.domain == "nowhere" {
				unknown = uint64(len(tc.asks))
			}
			if got := recorder.NotFound(); got != unknown {
				t.Errorf("%d descriptors had a domain that is not there, want %d", got, unknown)
			}
		})
	}
}

// Whatever the store cannot answer was asked all the same: envoyproxy/ratelimit counts it before it asks.
func TestHitsWithoutAnAnswerAreInTheTotal(t *testing.T) {
	store, err := counter.Open(counter.Config{Redis: redis.Config{
		URL: "127.0.0.1:1", Timeout: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]descriptors.Policy{"error": descriptors.PolicyError, "deny": descriptors.PolicyDeny} {
		known, _ := newLimiter(t)
		recorder := hits.New(0)
		recorder.KeepTallies()
		l := limit.New(guard.New(store, guard.Config{Policy: policy}), limit.Options{Algorithm: descriptors.SlidingWindow}, recorder)
		l.Apply(known.Config())
		c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 2, Descriptors: []limit.Descriptor{
			one("user", "ann"), with(one("user", "bob"), own(0)), with(one("shadow", ""), refund(1)), one("free", ""),
		}}}
		_ = l.Decide(context.Background(), c) // whatever the answer is
		want := tallied{"shop.user": {hits.TotalHits: 2}, "shop.shadow": {hits.TotalNegativeHits: 1}}
		if got := tallies(recorder); !maps.Equal(got, want) {
			t.Errorf("by policy %s: %v; want %v", name, got, want)
		}
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestADenialThatIsRememberedIsTalliedAsSuch(t *testing.T) {
	store, _ := newStore(t)
	known, _ := newLimiter(t)
	recorder := hits.New(0)
	recorder.KeepTallies()
	l := limit.New(guard.New(store, guard.Config{Policy: descriptors.PolicyError}), limit.Options{}, recorder)
	l.Apply(known.Config())
	for range 3 { // the first is denied by the store
		ask(t, l, "shop", 11, one("user", "ann"))
	}
	want := tallied{"shop.user": {hits.TotalHits: 33, hits.OverLimit: 33, hits.OverLimitWithLocalCache: 22}}
	if got := tallies(recorder); !maps.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
}

func TestTheShadowModeOfAllIsNoRules(t *testing.T) {
	l, _, recorder := newLimiterWith(t, limit.Options{Shadow: true}, shop)
	recorder.KeepTallies()
	c := ask(t, l, "shop", 11, one("user", "ann"))
	want := tallied{"shop.user": {hits.TotalHits: 11, hits.OverLimit: 11}}
	if got := tallies(recorder); !maps.Equal(got, want) || c.Outcome(nil) != limit.Shadowed {
		t.Errorf("%v, %v; want %v", got, c.Outcome(nil), want)
	}
}

func TestTalliesCostAKnownKeyNoAllocation(t *testing.T) {
	l, _, recorder := newRecordingLimiter(t)
	recorder.KeepTallies()
	c := new(limit.Call)
	for _, key := range []string{"user", "epoch", "tenant", "nobody"} {
		decide := func() {
			fill(c, "ann")
			c.Descriptors[0].Entries[0].Key = key
			c.Descriptors[0].HasOverride = key == "nobody"
			c.Descriptors[0].Override = limit.Override{Requests: 1, Unit: descriptors.Day}
			if err := l.Decide(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		decide()
		if n := testing.AllocsPerRun(1000, decide); n != 0 {
			t.Errorf("a request for a known %s allocates %v times; want none: the request path must not feed the collector", key, n)
		}
	}
}

package limit_test

import (
	"maps"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const sparing = `
domain: shop
descriptors:
  - {key: two, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: other, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: both, rate_limits: [{requests_per_unit: 10, unit: minute}, {requests_per_unit: 3, unit: hour}]}
  - {key: epoch, rate_limit: {requests_per_unit: 2, unit: minute, algorithm: fixed_window}}
  - {key: steady, rate_limit: {requests_per_unit: 10, unit: minute, algorithm: fixed_window}}
  - {key: log, rate_limit: {requests_per_unit: 2, unit: minute, algorithm: sliding_log}}
  - {key: always, charge: always, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: shadow, shadow_mode: true, charge: always, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: quota, quota_mode: true, charge: always, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: large, quota_mode: true, rate_limit: {requests_per_unit: 10, unit: minute}}
  - {key: free, rate_limit: {unlimited: true}}
`

// counted returns what the store holds of a key, under the first of its limits.
func counted(t *testing.T, store backend.Inspector, l *limit.Limiter, d limit.Descriptor) uint64 {
	t.Helper()
	m := l.Config().Match("shop", d.Entries)
	if m.Rule == nil {
		t.Fatalf("no rule for %v", d.Entries)
	}
	counts, err := store.Inspect(t.Context(), m.AppendKey(nil, "shop", d.Entries), m.Rule.Limits)
	if err != nil {
		t.Fatal(err)
	}
	return counts[0].Hits
}

func each(keys ...string) (ds []limit.Descriptor) {
	for _, key := range keys {
		ds = append(ds, one(key, ""))
	}
	return ds
}

// The same request three times, under limits of two: twice it passes, and then some of it is over.
func TestDeniedRequestChargesOnlyDenyingDescriptors(t *testing.T) {
	type counts = map[string]uint64
	full := with(one("other", ""), override(2, descriptors.Minute, 1))
	for _, tc := range []struct {
		name    string
		options limit.Options
		ask     []limit.Descriptor
		over    bool
		last    seen // of the last descriptor, the third time
		want    counts
	}{
		{"the other descriptor is not charged", limit.Options{}, each("two", "other"), true, seen{false, "10/minute", 8}, counts{"two": 2, "other": 2}},
		{"whatever the order", limit.Options{}, each("other", "two"), true, seen{true, "2/minute", 0}, counts{"two": 2, "other": 2}},
		{"all that are over are asked", limit.Options{}, each("two", "always", "other"), true, seen{false, "10/minute", 8},
			counts{"two": 2, "always": 3, "other": 2}},
		{"what is over in a fixed window counts on", limit.Options{}, each("epoch", "steady"), true, seen{false, "10/minute", 8},
			counts{"epoch": 3, "steady": 2}},
		{"what charges always and is not over is not charged", limit.Options{}, append(each("two"), with(one("other", ""), own(1))), true,
			seen{false, "10/minute", 8}, counts{"two": 2, "other": 2}},
		{"a log", limit.Options{}, each("log", "other"), true, seen{false, "10/minute", 8}, counts{"log": 2, "other": 2}},
		{"several limits, of which the strictest is shown", limit.Options{}, each("two", "both"), true, seen{false, "3/hour", 1}, counts{"two": 2, "both": 2}},
		{"a limit that the request brings", limit.Options{}, []limit.Descriptor{full, one("both", "")}, true, seen{false, "3/hour", 1}, counts{"both": 2}},
		{"alone it is as ever", limit.Options{}, each("always"), true, seen{true, "2/minute", 0}, counts{"always": 3}},
		{"beside what is not counted as well", limit.Options{}, each("always", "free"), true, seen{false, "unlimited", 0}, counts{"always": 3}},

		{"a shadow rule changes nothing", limit.Options{}, each("shadow", "other"), false, seen{false, "10/minute", 7}, counts{"shadow": 3, "other": 3}},
		{"a shadow rule that is over is asked", limit.Options{}, each("two", "shadow"), true, seen{false, "2/minute", 0}, counts{"two": 2, "shadow": 3}},
		{"in shadow mode all is charged", limit.Options{Shadow: true}, each("two", "other"), false, seen{false, "10/minute", 7}, counts{"two": 2, "other": 3}},
		{"a quota that does not refuse changes nothing", limit.Options{}, each("quota", "large"), false, seen{false, "10/minute", 7}, counts{"quota": 3, "large": 3}},
		{"all quotas are over", limit.Options{}, each("quota", "other"), true, seen{false, "10/minute", 8}, counts{"quota": 3, "other": 2}},
		{"quotas beside what is over", limit.Options{}, each("two", "quota", "large"), true, seen{false, "10/minute", 8}, counts{"two": 2, "quota": 3, "large": 2}},
		{"in quota mode", limit.Options{Quota: true}, each("always", "other"), false, seen{false, "10/minute", 7}, counts{"always": 3, "other": 3}},
		{"in quota mode, all over", limit.Options{Quota: true}, each("always", "two"), true, seen{true, "2/minute", 0}, counts{"always": 3, "two": 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, _ := newStore(t)
			tc.options.RefundOthers = true
			l, _ := newLimiterOn(t, store, tc.options, sparing)
			for range 2 {
				if denied(ask(t, l, "shop", 1, tc.ask...)) {
					t.Fatal("one of the first two requests is refused")
				}
			}
			c := ask(t, l, "shop", 1, tc.ask...)
			if got := see(c.Statuses[len(tc.ask)-1]); denied(c) != tc.over || got != tc.last {
				t.Errorf("over %v, the last status %+v; want %v, %+v", denied(c), got, tc.over, tc.last)
			}
			got := make(counts)
			for key := range tc.want {
				got[key] = counted(t, store, l, one(key, ""))
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("counted %v; want %v", got, tc.want)
			}
		})
	}
}

func TestRefundedHitsAreRecordedAsWithin(t *testing.T) {
	l, _, recorder := newLimiterWith(t, limit.Options{RefundOthers: true}, sparing)
	ask(t, l, "shop", 2, each("two", "other")...)
	ask(t, l, "shop", 7, each("two", "other")...)
	want := map[string]hits.Totals{"shop two": {Within: 2, Near: 1, Over: 7}, "shop other": {Within: 9, Near: 1}}
	if got := recorded(recorder); !maps.Equal(got, want) {
		t.Errorf("recorded %+v; want %+v, as if all stayed charged", got, want)
	}
}

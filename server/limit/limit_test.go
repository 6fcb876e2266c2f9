package limit_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 10, unit: minute, name: burst}
      - {requests_per_unit: 500, unit: hour}
    descriptors:
      - key: path
        value: /pay
        message: slow down
        rate_limit: {requests_per_unit: 2, unit: minute}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: trusted, value: "yes"}
  - {key: epoch, rate_limit: {requests_per_unit: 2, unit: minute, algorithm: fixed_window}}
  - {key: bytes, rate_limit: {requests_per_unit: 1000, unit: minute}}
  - {key: strict, charge: admitted, rate_limit: {requests_per_unit: 1000, unit: minute}}
  - {key: closed, rate_limit: {requests_per_unit: 0, unit: minute}}
  - {key: bucket, rate_limit: {requests_per_unit: 100, unit: minute, algorithm: token_bucket, burst: 10}}
  - {key: tenant, value_to_metric: true, rate_limit: {requests_per_unit: 10, unit: minute}}
`

// clock stands still until it is moved.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(0, c.nanos.Load()) }

// newLimiterWith makes a limiter of a file, by options whose algorithm is the sliding window.
func newLimiterWith(t testing.TB, o limit.Options, file string) (*limit.Limiter, *clock, *hits.Recorder) {
	t.Helper()
	store, clk := newStore(t)
	l, recorder := newLimiterOn(t, store, o, file)
	return l, clk, recorder
}

func newStore(t testing.TB) (*memory.Store, *clock) {
	t.Helper()
	clk := new(clock)
	clk.nanos.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano())
	return fixture.Memory(t, clk.now), clk
}

// newLimiterOn is newLimiterWith on a store of the caller's.
func newLimiterOn(t testing.TB, store backend.Counter, o limit.Options, file string) (*limit.Limiter, *hits.Recorder) {
	t.Helper()
	o.Algorithm, o.NearRatio = descriptors.SlidingWindow, 0.8
	recorder := hits.New(100)
	recorder.Ratelimit = rulestats.New(false)
	l := limit.New(store, o, recorder)
	l.Apply(fixture.Config(t, file))
	return l, recorder
}

// one returns a descriptor of one entry.
func one(key, value string) limit.Descriptor {
	return limit.Descriptor{Entries: descriptors.Descriptor{{Key: key, Value: value}}}
}

func with(d limit.Descriptor, change func(*limit.Descriptor)) limit.Descriptor {
	change(&d)
	return d
}

func own(n uint64) func(*limit.Descriptor) {
	return func(d *limit.Descriptor) { d.HasHits, d.Hits = true, n }
}

func refund(n uint64) func(*limit.Descriptor) {
	return func(d *limit.Descriptor) { d.HasHits, d.Hits, d.Refund = true, n, true }
}

func override(n uint32, u descriptors.Unit, times uint32) func(*limit.Descriptor) {
	return func(d *limit.Descriptor) {
		d.HasOverride, d.Override = true, limit.Override{Requests: n, Unit: u, Multiplier: times, HasMultiplier: true}
	}
}

func ask(t *testing.T, l *limit.Limiter, domain string, addend uint32, ds ...limit.Descriptor) *limit.Call {
	t.Helper()
	c := &limit.Call{Request: limit.Request{Domain: domain, Hits: addend, Descriptors: ds}}
	if err := l.Decide(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(c.Statuses) != len(ds) {
		t.Fatalf("%d statuses for %d descriptors; Envoy relies on one each, in order", len(c.Statuses), len(ds))
	}
	return c
}

func denied(c *limit.Call) bool { return c.Result == limit.OverLimit }

// seen is what a status shows, in a form that tables can hold.
type seen struct {
	over      bool
	limit     string // N/UNIT, "unlimited", or "" for none
	remaining uint64
}

func see(s limit.Status) seen {
	out := seen{over: s.Outcome == limit.Over, remaining: s.Remaining}
	switch {
	case s.Outcome == limit.Unlimited:
		out.limit = "unlimited"
	case s.Limit != nil:
		out.limit = s.Limit.String()
	}
	return out
}

func TestDecideAppliesModesAndHits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		addend uint32
		before []limit.Descriptor // asked first, one by one
		ask    limit.Descriptor
		want   seen
	}{
		{"the strictest of several limits", 0, nil, one("user", "ann"), seen{false, "10/minute", 9}},
		{"the request's hits", 4, nil, one("user", "ann"), seen{false, "10/minute", 6}},
		{"the descriptor's hits win", 4, nil, with(one("user", "ann"), own(2)), seen{false, "10/minute", 8}},
		{"more hits than the limit", 11, nil, one("user", "ann"), seen{true, "10/minute", 0}},
		{"other values count apart", 10, []limit.Descriptor{one("user", "bob")}, one("user", "ann"), seen{false, "10/minute", 0}},
		{"over", 10, []limit.Descriptor{one("user", "ann")}, one("user", "ann"), seen{true, "10/minute", 0}},
		{"an explicit 0 looks", 10, []limit.Descriptor{one("user", "ann")}, with(one("user", "ann"), own(0)), seen{true, "10/minute", 0}},
		{"a look charges nothing", 1, []limit.Descriptor{with(one("user", "ann"), own(0))}, with(one("user", "ann"), own(0)), seen{false, "10/minute", 10}},
		{"a refund gives back", 10, []limit.Descriptor{one("user", "ann")}, with(one("user", "ann"), refund(3)), seen{false, "10/minute", 3}},
		{"a refund of nothing", 1, nil, with(one("user", "ann"), refund(3)), seen{false, "10/minute", 10}},
		{"a rule without a limit passes", 1, nil, one("trusted", "yes"), seen{}},
		{"no entries", 1, nil, limit.Descriptor{}, seen{}},
		{"an empty key", 1, nil, one("", "ann"), seen{}},
		{"a shadow rule shows its limit", 1, nil, one("shadow", ""), seen{false, "1/minute", 0}},
		{"a shadow rule never denies", 1, []limit.Descriptor{one("shadow", "")}, one("shadow", ""), seen{false, "1/minute", 0}},

		{"hits of its own are charged though denied", 1, []limit.Descriptor{with(one("bytes", ""), own(1500))}, one("bytes", ""), seen{true, "1000/minute", 0}},
		{"unless the rule says otherwise", 1, []limit.Descriptor{with(one("strict", ""), own(1500))}, one("strict", ""), seen{false, "1000/minute", 999}},
		{"the request's hits are not charged when denied", 600, []limit.Descriptor{one("bytes", ""), one("bytes", "")}, with(one("bytes", ""), own(0)), seen{false, "1000/minute", 400}},
		{"a fixed window charges the denied", 1, []limit.Descriptor{one("epoch", ""), one("epoch", ""), one("epoch", "")}, with(one("epoch", ""), own(0)), seen{true, "2/minute", 0}},

		{"an override replaces the limit", 1, nil, with(one("user", "ann"), override(3, descriptors.Minute, 5)), seen{false, "3/5minute", 2}},
		{"an override is no shadow", 1, nil, with(one("shadow", ""), override(0, descriptors.Day, 1)), seen{true, "0/day", 0}},
		{"a window of over 292 years falls back", 1, nil, with(one("user", "ann"), override(3, descriptors.Year, 293)), seen{false, "10/minute", 9}},
		{"a window of over 100,000 precisions falls back", 1, nil, with(one("user", "ann"), override(3, descriptors.Day, 100_001)), seen{false, "10/minute", 9}},
		{"a window of 100,000 precisions", 1, nil, with(one("user", "ann"), override(3, descriptors.Day, 100_000)), seen{false, "3/100000day", 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, _ := newLimiterWith(t, limit.Options{}, shop)
			for _, d := range tc.before {
				ask(t, l, "shop", tc.addend, d)
			}
			c := ask(t, l, "shop", tc.addend, tc.ask)
			if got := see(c.Statuses[0]); got != tc.want || denied(c) != tc.want.over {
				t.Errorf("got %+v, over all = %v; want %+v", got, denied(c), tc.want)
			}
		})
	}
}

func TestStatusesKeepTheirOrder(t *testing.T) {
	l, _, _ := newLimiterWith(t, limit.Options{}, shop)
	pay := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/pay"}}}
	ask(t, l, "shop", 2, pay)
	c := ask(t, l, "shop", 1, one("nobody", ""), pay, one("free", ""), one("user", "ann"), one("user", "ann"))
	want := []seen{{}, {true, "2/minute", 0}, {false, "unlimited", 0}, {false, "10/minute", 9}, {false, "10/minute", 8}}
	for i := range want {
		if got := see(c.Statuses[i]); got != want[i] {
			t.Errorf("status %d is %+v, want %+v", i, got, want[i])
		}
	}
	if !denied(c) || c.Message != "slow down" {
		t.Errorf("over = %v, message %q; want any denial to deny, with that rule's message", denied(c), c.Message)
	}
}

// The worked example that README.md opens with.
func TestReadmeExampleHolds(t *testing.T) {
	l, clk, _ := newLimiterWith(t, limit.Options{}, shop)
	noon := clk.nanos.Load()
	at := func(afterNoon time.Duration) *limit.Call {
		clk.nanos.Store(noon + int64(afterNoon))
		return ask(t, l, "shop", 1, one("user", "ann"))
	}
	for i := range 33 { // 11:05 to 11:37
		at(time.Duration(i-55) * time.Minute)
	}
	for i := range 7 { // 12:00:01 to 12:00:25
		at(time.Duration(1+4*i) * time.Second)
	}
	c := at(33200 * time.Millisecond)
	want := seen{false, "10/minute", 2}
	if got := see(c.Statuses[0]); got != want || c.Statuses[0].ResetIn != 28800*time.Millisecond {
		t.Errorf("got %+v, resets in %v; the README says %+v, 29 s", got, c.Statuses[0].ResetIn, want)
	}
	for range 2 {
		ask(t, l, "shop", 1, one("user", "ann"))
	}
	if !denied(ask(t, l, "shop", 1, one("user", "ann"))) {
		t.Error("the README says that three requests later it is over")
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	l, _, _ := newLimiterWith(t, limit.Options{}, shop)
	unconfigured := limit.New(nil, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0))
	broken := limit.New(nil, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0))
	var none yaml.LastGood
	broken.Apply(none.Update([]yaml.File{{Name: "shop", Data: []byte("domain: shop\ndescriptors: 1")},
		{Name: "bar", Data: []byte("domain: bar")}}, nil).Config)
	noRule, brings := one("no", "rule"), with(one("no", "rule"), override(1, descriptors.Minute, 1))
	for _, tc := range []struct {
		l      *limit.Limiter
		domain string
		asks   []limit.Descriptor
		want   error
		result limit.Result
	}{
		{l, "", []limit.Descriptor{noRule}, limit.ErrNoDomain, limit.Invalid},
		{l, "shop", nil, limit.ErrNoDescriptors, limit.Invalid},
		{broken, "shop", []limit.Descriptor{noRule}, limit.ErrBrokenDomain, limit.Unconfigured},
		{broken, "shop", []limit.Descriptor{brings}, limit.ErrBrokenDomain, limit.Unconfigured},
		{unconfigured, "shop", []limit.Descriptor{noRule}, limit.ErrNoConfig, limit.Unconfigured},
	} {
		c := &limit.Call{Request: limit.Request{Domain: tc.domain, Descriptors: tc.asks}}
		if err := tc.l.Decide(t.Context(), c); !errors.Is(err, tc.want) || c.Counted() != tc.result {
			t.Errorf("%s, %d descriptors: %v, %v; want %v, %v", tc.domain, len(tc.asks), err, c.Counted(), tc.want, tc.result)
		}
	}
	if s := ask(t, l, "shop", 1, one("user", "ann")).Statuses[0]; s.Remaining != 9 {
		t.Errorf("after them %d of 10 are left, want 9: nothing of a bad request is counted", s.Remaining)
	}
}

func TestKnownKeyCostsNoAllocation(t *testing.T) {
	for name, tc := range map[string]struct {
		options limit.Options
		keys    []string
	}{
		"one check": {keys: []string{"user"}},
		"an epoch":  {keys: []string{"epoch"}},
		"a bucket":  {keys: []string{"bucket"}},
		"many":      {keys: []string{"user", "epoch", "tenant", "nobody"}},
		"a value":   {keys: []string{"tenant"}},
		"a refund":  {options: limit.Options{RefundOthers: true}, keys: []string{"epoch", "user"}},
	} {
		l, _, _ := newLimiterWith(t, tc.options, shop)
		c := new(limit.Call)
		decide := func() {
			c.Reset()
			c.Domain = "shop"
			for _, key := range tc.keys {
				d := c.AddDescriptor()
				d.Entries = append(d.Entries, descriptors.Entry{Key: key, Value: "ann"})
				d.HasOverride, d.Override = key == "nobody", limit.Override{Requests: 1, Unit: descriptors.Day}
			}
			if err := l.Decide(context.Background(), c); err != nil {
				t.Fatal(err)
			}
		}
		decide()
		if n := testing.AllocsPerRun(1000, decide); n != 0 {
			t.Errorf("%s: a request for known keys allocates %v times; want none: the request path must not feed the collector", name, n)
		}
		if tc.options.RefundOthers && !denied(c) {
			t.Error("the requests passed, so that nothing was given back")
		}
	}
}

// One huge request must not make every later one carry its room.
func TestResetFreesAHugeRequestsMemory(t *testing.T) {
	c := new(limit.Call)
	d := c.AddDescriptor()
	d.Entries = make(descriptors.Descriptor, 100_000)
	c.Reset()
	if d := c.AddDescriptor(); cap(d.Entries) > 1000 {
		t.Errorf("room for %d entries is kept", cap(d.Entries))
	}
}

// asked is a store that remembers at which rate it was asked, -1 where nothing may be leased.
type asked struct {
	*memory.Store
	rates []float32
}

func (a *asked) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		rate := float32(-1)
		if checks[i].Leases {
			rate = checks[i].Rate
		}
		a.rates = append(a.rates, rate)
	}
	return a.Store.Decide(ctx, checks, out)
}

func TestRulesDecideWhetherKeysLease(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options limit.Options
		want    []float32 // by which rate each check may lease; -1: none may
	}{
		{"a store that cannot lease", limit.Options{Leases: true}, []float32{-1, -1, -1, -1, -1, -1}},
		{"as weir is started", limit.Options{CanLease: true}, []float32{-1, 0, -1, -1, 1. / 3, -1}},
		{"LEASES=true", limit.Options{CanLease: true, Leases: true}, []float32{0, 0, -1, 1. / 3, 1. / 3, -1}},
	} {
		store, _ := newStore(t)
		counter := &asked{Store: store}
		l, _ := newLimiterOn(t, counter, tt.options, `
domain: shop
descriptors:
  - {key: silent, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: leased, lease: true, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: asked, lease: false, rate_limit: {requests_per_unit: 10, unit: hour}}
`)
		for range 2 {
			ask(t, l, "shop", 1, one("silent", "x"), one("leased", "x"), one("asked", "x"))
		}
		if !slices.Equal(counter.rates, tt.want) {
			t.Errorf("%s: the store may grant leases to rules without lease, with lease: true and lease: false at %v hits a second "+
				"(-1: none); want %v", tt.name, counter.rates, tt.want)
		}
	}
}

package limit_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// partly is a store that gives no answer to some checks, as one of several servers that is away.
type partly struct {
	*memory.Store
	gone func(*backend.Check) bool
}

var errAway = &backend.UnavailableError{Reason: backend.Down, Err: errors.New("the server is away")}

func (p partly) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		if p.gone(&checks[i]) {
			out[i] = backend.Decision{Err: errAway}
		} else if err := p.Store.Decide(ctx, checks[i:i+1], out[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// away is a store that answers nothing.
func away(t testing.TB) partly {
	store, _ := newStore(t)
	return partly{store, func(*backend.Check) bool { return true }}
}

const guarded = `
domain: shop
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: strict, on_backend_failure: deny, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: watched, on_backend_failure: deny, shadow_mode: true, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: here, on_backend_failure: local, rate_limit: {requests_per_unit: 4, unit: hour}}
  - {key: unsure, on_backend_failure: error, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: shadow, on_backend_failure: error, shadow_mode: true, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: blocked, rate_limit: {requests_per_unit: 0, unit: hour}}
`

// newGuarded makes a limiter whose store is away.
func newGuarded(t *testing.T) (*limit.Limiter, *hits.Recorder) {
	t.Helper()
	g := guard.New(away(t), guard.Config{Policy: descriptors.PolicyAllow, Replicas: func() int { return 2 },
		Local: memory.Open(memory.Config{MaxKeys: 10})})
	t.Cleanup(func() { g.Close() })
	return newLimiterOn(t, g, limit.Options{}, guarded)
}

func TestRulesFollowTheirPolicyWithoutAStore(t *testing.T) {
	l, recorder := newGuarded(t)
	c := ask(t, l, "shop", 1, one("open", "x"), one("strict", "x"), one("watched", "x"), one("here", "x"))
	var over []bool
	var policies []string
	for _, s := range c.Statuses {
		over, policies = append(over, s.Outcome == limit.Over), append(policies, s.Policy.String())
		if s.Reason == 0 || s.Limit == nil {
			t.Errorf("a status is %+v; want the reason and the limit", s)
		}
	}
	if want := []bool{false, true, false, false}; !slices.Equal(over, want) || !denied(c) || !c.Degraded {
		t.Errorf("over are %v, the request %v; want %v and a refused, degraded request: a rule in shadow mode refuses nothing", over, denied(c), want)
	}
	if got := strings.Join(policies, " "); got != "allow deny deny local" {
		t.Errorf("decided by %s", got)
	}
	for range 2 {
		ask(t, l, "shop", 1, one("here", "x"))
	}
	degraded := totals{"shop open": {Degraded: 1}, "shop strict": {Degraded: 1}, "shop watched": {Degraded: 1}, "shop here": {Degraded: 3}}
	if got := recorded(recorder); !maps.Equal(got, degraded) {
		t.Errorf("recorded %+v; want %+v: whoever decides, no store did", got, degraded)
	}
	unsure := &limit.Call{Request: limit.Request{Domain: "shop", Descriptors: []limit.Descriptor{one("open", "x"), one("unsure", "x")}}}
	if err := l.Decide(t.Context(), unsure); !errors.Is(err, errAway) {
		t.Errorf("a request with a rule whose policy is error got %v; want the store's error", err)
	}
	want := [descriptors.Policies]uint64{descriptors.PolicyAllow: 2, descriptors.PolicyDeny: 2, descriptors.PolicyLocal: 3, descriptors.PolicyError: 1}
	if got := l.DegradedByPolicy(); got != want {
		t.Errorf("the policies have decided %v, want %v", got, want)
	}
}

func TestAnyDenyingPolicyDeniesTheRequest(t *testing.T) {
	l, _ := newGuarded(t)
	for _, keys := range [][]string{{"unsure", "strict"}, {"strict", "unsure"}, {"blocked", "unsure"}, {"blocked"}} {
		c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: 1}}
		for _, key := range keys {
			c.Descriptors = append(c.Descriptors, one(key, "x"))
		}
		if err := l.Decide(t.Context(), c); err != nil || !denied(c) {
			t.Errorf("%v: over is %v, error %v; want it refused: no verdict on one descriptor opens no door that another closes", keys, denied(c), err)
		}
	}
	if c := ask(t, l, "shop", 1, one("shadow", "x"), one("open", "x")); denied(c) || !c.Degraded {
		t.Errorf("a rule in shadow mode without a verdict makes the request over: %v, degraded: %v; want it let pass, and told", denied(c), c.Degraded)
	}
}

const refunding = `
domain: shop
refund_on_deny: true
descriptors:
  - {key: two, rate_limit: {requests_per_unit: 2, unit: hour}}
  - {key: other, rate_limits: [{requests_per_unit: 10, unit: hour}, {requests_per_unit: 5, unit: day}]}
  - {key: epoch, rate_limit: {requests_per_unit: 10, unit: hour, algorithm: fixed_window}}
  - {key: always, charge: always, rate_limit: {requests_per_unit: 10, unit: hour}}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
`

func TestDeniedRequestRefundsItsOtherDescriptors(t *testing.T) {
	l, _, _ := newLimiterWith(t, limit.Options{}, refunding)
	left := func(c *limit.Call) (all []uint64) {
		for _, s := range c.Statuses {
			all = append(all, s.Remaining)
		}
		return all
	}
	all := []limit.Descriptor{one("two", "x"), one("other", "x"), one("epoch", "x"), one("always", "x"), with(one("other", "own"), own(1)), one("shadow", "x")}
	for i, want := range [][]uint64{{1, 4, 9, 9, 4, 0}, {0, 3, 8, 8, 3, 0}} {
		if c := ask(t, l, "shop", 1, all...); denied(c) || !slices.Equal(left(c), want) {
			t.Fatalf("request %d, of 2 that fit, leaves %v and is over: %v; want %v", i+1, left(c), denied(c), want)
		}
	}
	for range 3 {
		c := ask(t, l, "shop", 1, all...)
		if got := left(c); !denied(c) || !slices.Equal(got[:3], []uint64{0, 3, 8}) {
			t.Errorf("a refused request leaves %v, want 0 3 8 first: what two others were charged is given back", got)
		}
	}
	c := ask(t, l, "shop", 1, all...)
	if got := c.Statuses[5]; got.Outcome == limit.Over || got.NextIn != 0 {
		t.Errorf("a shadow rule is %+v, want it to refuse nothing, and to let nobody wait", got)
	}
	if got := left(c); got[3] != 10-6 || got[4] != 0 {
		t.Errorf("of what is charged whatever the verdict %v are left, want 4 and 0: it stays charged", got[3:5])
	}
	if done, failed := l.Refunds.Done.Load(), l.Refunds.Failed.Load(); done != 8 || failed != 0 {
		t.Errorf("%d refunds are counted, %d failed; want 8 and 0: two in each of four refused requests", done, failed)
	}
}

func TestFailedRefundIsCountedAndStillDenies(t *testing.T) {
	store, _ := newStore(t)
	lost := false
	l, _ := newLimiterOn(t, partly{store, func(c *backend.Check) bool { return lost && c.Op == backend.Refund }}, limit.Options{}, refunding)
	ask(t, l, "shop", 2, one("two", "x"))
	for range 3 {
		if c := ask(t, l, "shop", 1, one("two", "x"), one("other", "y")); !denied(c) || c.Degraded {
			t.Fatalf("a request over its limit got over: %v, degraded: %v", denied(c), c.Degraded)
		}
		lost = l.Refunds.Done.Load() == 2
	}
	if done, failed := l.Refunds.Done.Load(), l.Refunds.Failed.Load(); done != 2 || failed != 1 {
		t.Errorf("%d refunds are counted as done and %d as failed; want 2 and 1, whose answer was lost", done, failed)
	}
}

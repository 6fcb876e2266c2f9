package limit_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const travelled = `
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 3, unit: minute, name: users}
    descriptors:
      - {key: path, value: /pay, rate_limit: {requests_per_unit: 1, unit: minute}}
      - {key: open, value: "yes"}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 0, unit: minute}}
  - {key: q1, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: q2, quota_mode: true, rate_limit: {requests_per_unit: 100, unit: minute}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: vip, rate_limit: {requests_per_unit: 50, unit: minute, name: vips, replaces: [{name: users}]}}
  - {key: long, descriptors: [{key: two, rate_limit: {requests_per_unit: 50, unit: minute}}]}
`

func TestATraceTellsRuleKeyVerdictAndWhoDecided(t *testing.T) {
	k := newKeeping(t, limit.Options{}, travelled)
	k.clock.nanos.Add(int64(500 * time.Millisecond))
	pay := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/pay"}}}
	open := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "open", Value: "yes"}}}
	other := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Key: "path", Value: "/x?y"}}}
	k.ask(t, 1, pay)
	for _, tc := range []struct {
		ask  []limit.Descriptor
		want string
	}{
		{[]limit.Descriptor{pay}, "user=ann,path=/pay -> rule user/path=/pay (0.yaml:7), key 4:shop4:user3:ann4:path4:/pay, hits 1: " +
			"OVER 1/minute, remaining 0, resets in 1m0.5s, again in 1m0.5s, decided by store"},
		{[]limit.Descriptor{one("user", "bob"), one("free", "x")}, "user=bob -> rule user (0.yaml:4), key 4:shop4:user3:bob, hits 1: " +
			"OK 3/minute, remaining 2, resets in 1m0.5s, decided by store; free=x -> rule free (0.yaml:12), unlimited"},
		{[]limit.Descriptor{other, open, one("nothing", "x"), {}}, "user=ann,path=/x?y -> no rule: nothing fits path=/x?y; " +
			"user=ann,open=yes -> no rule: what it ends on has no limit; nothing=x -> no rule: nothing fits nothing=x;  -> no rule: it has no entries"},
		{[]limit.Descriptor{one("shadow", "s")}, "shadow=s -> rule shadow (0.yaml:9), key 4:shop6:shadow1:s, hits 1: " +
			"OVER in shadow mode 0/minute, remaining 0, resets in 1m0s, again in never, decided by store"},
		{[]limit.Descriptor{with(one("q1", "a"), own(2)), one("q2", "a")}, "q1=a -> rule q1 (0.yaml:10), key 4:shop2:q11:a, hits 2: " +
			"OVER, not all quotas are, 1/minute, remaining 0, resets in 1m0.5s, again in never, decided by store; " +
			"q2=a -> rule q2 (0.yaml:11), key 4:shop2:q21:a, hits 1: OK 100/minute, remaining 99, resets in 1m0.5s, decided by store"},
		{[]limit.Descriptor{one("vip", "v"), one("user", "v")}, "vip=v -> rule vip (0.yaml:13), key 4:shop3:vip1:v, hits 1: " +
			"OK 50/minute, remaining 49, resets in 1m0.5s, decided by store; user=v -> no rule: user steps aside for a rule that replaces it"},
		{[]limit.Descriptor{with(one("user", "w"), override(7, descriptors.Hour, 1))}, "user=w -> rule user (0.yaml:4), " +
			"the limit is the request's own, key 4:shop4:user1:w, hits 1: OK 7/hour, remaining 6, resets in 1h0m59.5s, decided by store"},
		{[]limit.Descriptor{with(one("user", "w"), refund(1)), with(one("user", "w"), own(0))}, "user=w -> rule user (0.yaml:4), key 4:shop4:user1:w, " +
			"gives back 1: OK 3/minute, remaining 3, resets in 0s, decided by store; user=w -> rule user (0.yaml:4), key 4:shop4:user1:w, " +
			"looks for 0: OK 3/minute, remaining 3, resets in 0s, decided by store"},
	} {
		if got := k.ask(t, 1, tc.ask...).Trace(); got != tc.want {
			t.Errorf("the trace is\n%s\nwant\n%s", got, tc.want)
		}
	}
	noKey := limit.Descriptor{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}, {Value: "/pay"}}}
	if got, want := k.ask(t, 1, noKey).Trace(), "user=ann,=/pay -> no rule: an entry has no key"; got != want {
		t.Errorf("the trace is %q, want %q: the domain is configured", got, want)
	}
	unknown := &limit.Call{Request: limit.Request{Domain: "bank", Descriptors: []limit.Descriptor{one("user", "ann")}}}
	if err := k.limiter.Decide(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	if got, want := unknown.Trace(), "user=ann -> no rule: no file configures the domain"; got != want {
		t.Errorf("the trace is %q, want %q", got, want)
	}
	undecided := &limit.Call{Request: limit.Request{Descriptors: []limit.Descriptor{one("user", "ann")}}}
	if err := k.limiter.Decide(t.Context(), undecided); err == nil || undecided.Trace() != "user=ann -> not decided" {
		t.Errorf("without a domain (%v) the trace is %q", err, undecided.Trace())
	}
}

func TestATraceTellsWhatTheFailurePolicyDecided(t *testing.T) {
	for policy, want := range map[descriptors.Policy]string{
		descriptors.PolicyDeny:  "OVER 3/minute, remaining 0, resets in 1s, again in 1s, decided by policy (deny, as the store is down)",
		descriptors.PolicyAllow: "OK 3/minute, remaining 2, resets in 0s, decided by policy (allow, as the store is down)",
		descriptors.PolicyError: "no decision: the server is away",
	} {
		l, _ := newLimiterOn(t, guard.New(away(t), guard.Config{Policy: policy}), limit.Options{}, travelled)
		c := &limit.Call{Request: limit.Request{Domain: "shop", Descriptors: []limit.Descriptor{one("user", "ann")}}}
		_ = l.Decide(t.Context(), c) // an error by the last policy
		if _, got, _ := strings.Cut(c.Trace(), "hits 1: "); got != want {
			t.Errorf("by policy %s the trace ends in\n%s\nwant\n%s", policy, got, want)
		}
	}
}

// Whoever sends requests does not decide how long a line of the log is.
func TestATraceIsBounded(t *testing.T) {
	k := newKeeping(t, limit.Options{}, travelled)
	long := strings.Repeat("é", 100_000)
	var ds []limit.Descriptor
	for range limit.MaxDescriptors {
		ds = append(ds, one("user", long), one("nothing", long))
	}
	c := k.ask(t, 1, ds[:limit.MaxDescriptors]...)
	trace := c.Trace()
	if len(trace) > 6<<10 || !strings.HasPrefix(trace, "user=éé") || !strings.HasSuffix(trace, " more") || !utf8.ValidString(trace) {
		t.Errorf("the trace of a long request has %d bytes and ends in %q; want some 4 KiB that say how many descriptors were left out",
			len(trace), trace[len(trace)-40:])
	}
}

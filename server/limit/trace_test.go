package limit_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

const traced = `
domain: shop
descriptors:
  - {key: user, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: free, rate_limit: {unlimited: true}}
`

func TestTraceTellsRuleVerdictAndKey(t *testing.T) {
	l, _, _ := newLimiterWith(t, limit.Options{}, traced)
	ask(t, l, "shop", 1, one("user", "ann"))
	c := ask(t, l, "shop", 1, one("user", "ann"), one("free", "x"), one("nothing", "x"), one("user", "bob"))
	const want = "user=ann -> user: OVER, key 4:shop4:user3:ann, decided by store; free=x -> free: unlimited; " +
		"nothing=x -> __unmatched__: no rule; user=bob -> user: OK, key 4:shop4:user3:bob, decided by store"
	if got := c.Trace(); got != want {
		t.Errorf("the trace is\n%s\nwant\n%s", got, want)
	}
	for policy, want := range map[descriptors.Policy]string{
		descriptors.PolicyDeny:  "user=ann -> user: OVER, key 4:shop4:user3:ann, decided by policy (deny)",
		descriptors.PolicyError: "user=ann -> user: the server is away, key 4:shop4:user3:ann",
	} {
		l, _ := newLimiterOn(t, guard.New(away(t), guard.Config{Policy: policy}), limit.Options{}, traced)
		c := &limit.Call{Request: limit.Request{Domain: "shop", Descriptors: []limit.Descriptor{one("user", "ann")}}}
		_ = l.Decide(t.Context(), c) // an error by the last policy
		if got := c.Trace(); got != want {
			t.Errorf("by policy %s the trace is %q, want %q", policy, got, want)
		}
	}
}

// Whoever sends requests does not decide how long a line of the log is.
func TestTraceIsBounded(t *testing.T) {
	l, _, _ := newLimiterWith(t, limit.Options{}, traced)
	ds := make([]limit.Descriptor, limit.MaxDescriptors)
	for i := range ds {
		ds[i] = one("user", strings.Repeat("é", 100_000))
	}
	trace := ask(t, l, "shop", 1, ds...).Trace()
	if len(trace) > 6<<10 || !strings.HasPrefix(trace, "user=éé") || !strings.HasSuffix(trace, "; and 54 more") || !utf8.ValidString(trace) {
		t.Errorf("the trace of a long request has %d bytes and ends in %q; want some 4 KiB that say how many descriptors were left out",
			len(trace), trace[len(trace)-40:])
	}
}

package limit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/limit"
)

// keeping is a limiter that keeps denials, on a clock that stands still until it is moved.
type keeping struct {
	limiter *limit.Limiter
	clock   *clock
	kept    *denials.Recorder
}

func newKeeping(t testing.TB, o limit.Options, file string) *keeping {
	t.Helper()
	l, clk, _ := newLimiterWith(t, o, file)
	return &keeping{l, clk, l.Denials}
}

func (k *keeping) ask(t *testing.T, hits uint32, ds ...limit.Descriptor) *limit.Call {
	t.Helper()
	c := &limit.Call{Request: limit.Request{Domain: "shop", Hits: hits, Descriptors: ds, At: k.clock.now()}}
	if err := k.limiter.Decide(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// list returns what is kept, a line each, sorted.
func (k *keeping) list() string {
	var lines []string
	for _, d := range k.kept.List(denials.Filter{Values: true}) {
		l := &d.Last
		line := fmt.Sprintf("%s %s %d of %d hits denied", d.Path, l.Limit.String(), l.Hits, d.Hits)
		for what, is := range map[string]bool{"shadow": d.Shadow, "quota": l.Quota, "override": l.Override, "by " + l.Source.String(): l.Source != backend.FromStore} {
			if is {
				line += " " + what
			}
		}
		lines = append(lines, line+": "+d.Descriptor)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

const refusing = `
domain: shop
descriptors:
  - key: user
    rate_limits: [{requests_per_unit: 3, unit: minute, name: burst}, {requests_per_unit: 100, unit: hour}]
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: q1, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: q2, quota_mode: true, rate_limit: {requests_per_unit: 2, unit: minute}}
  - {key: closed, rate_limit: {requests_per_unit: 0, unit: minute}}
  - {key: free, rate_limit: {unlimited: true}}
`

func TestDenialsAreKept(t *testing.T) {
	user, shadow := one("user", "ann"), one("shadow", "s")
	for _, tc := range []struct {
		promise string
		options limit.Options
		ask     func(k *keeping)
		want    string
	}{
		{"what passes is not kept", limit.Options{}, func(k *keeping) { k.ask(t, 3, user, one("free", "f"), one("none", "n")) }, ""},
		{"the limit that refused, and the hits that were asked", limit.Options{}, func(k *keeping) { k.ask(t, 3, user); k.ask(t, 2, user) },
			"user 3/minute 2 of 2 hits denied: user=ann"},
		{"shadow mode is kept apart", limit.Options{}, func(k *keeping) { k.ask(t, 1, shadow); k.ask(t, 1, shadow) },
			"shadow 1/minute 1 of 1 hits denied shadow: shadow=s"},
		{"a shadow beside a refusal", limit.Options{}, func(k *keeping) { k.ask(t, 2, shadow, one("closed", "c")) },
			"closed 0/minute 2 of 2 hits denied: closed=c\nshadow 1/minute 2 of 2 hits denied shadow: shadow=s"},
		{"only what refuses, not what the request has besides", limit.Options{}, func(k *keeping) { k.ask(t, 1, user, one("closed", "c")) },
			"closed 0/minute 1 of 1 hits denied: closed=c"},
		{"all in shadow mode", limit.Options{Shadow: true}, func(k *keeping) { k.ask(t, 1, one("closed", "c")) },
			"closed 0/minute 1 of 1 hits denied shadow: closed=c"},
		{"one quota of two refuses nothing", limit.Options{}, func(k *keeping) { k.ask(t, 2, one("q1", "a"), one("q2", "a")) }, ""},
		{"all quotas together refuse", limit.Options{}, func(k *keeping) { k.ask(t, 3, one("q1", "a"), one("q2", "a")) },
			"q1 1/minute 3 of 3 hits denied quota: q1=a\nq2 2/minute 3 of 3 hits denied quota: q2=a"},
		{"a quota beside a refusal refuses as well", limit.Options{}, func(k *keeping) { k.ask(t, 2, one("q1", "a"), one("closed", "c")) },
			"closed 0/minute 2 of 2 hits denied: closed=c\nq1 1/minute 2 of 2 hits denied quota: q1=a"},
		{"a look counts no hits", limit.Options{}, func(k *keeping) { k.ask(t, 3, user); k.ask(t, 1, with(user, own(0))) },
			"user 3/minute 0 of 0 hits denied: user=ann"},
		{"a limit that the request brings, in the rule's place", limit.Options{}, func(k *keeping) { k.ask(t, 9, with(user, override(2, descriptors.Hour, 1))) },
			"user 2/hour 9 of 9 hits denied override: user=ann"},
		{"one without a rule", limit.Options{}, func(k *keeping) { k.ask(t, 9, with(one("none", "n"), override(2, descriptors.Hour, 5))) },
			descriptors.UnmatchedPath + " 2/5hour 9 of 9 hits denied override: none=n"},
		{"what is given back is not kept", limit.Options{RefundOthers: true}, func(k *keeping) { k.ask(t, 1, user, one("closed", "c")) },
			"closed 0/minute 1 of 1 hits denied: closed=c"},
	} {
		t.Run(tc.promise, func(t *testing.T) {
			k := newKeeping(t, tc.options, refusing)
			tc.ask(k)
			if got := k.list(); got != tc.want {
				t.Errorf("kept is\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestDenialTellsItsRetryTime(t *testing.T) {
	k := newKeeping(t, limit.Options{}, refusing)
	k.ask(t, 3, one("user", "ann"))
	k.clock.nanos.Add(int64(20 * time.Second))
	k.ask(t, 1, one("user", "ann"))
	all := k.kept.List(denials.Filter{})
	if len(all) != 1 || !all[0].Last.At.Equal(k.clock.now()) || all[0].Last.Count != 3 {
		t.Fatalf("kept is %+v; want the denial of now, with the 3 hits that count", all)
	}
	wait := all[0].Last.RetryAfter(k.clock.now())
	k.clock.nanos.Add(int64(wait))
	if c := k.ask(t, 1, one("user", "ann")); denied(c) {
		t.Errorf("it said %v, and a request that waited so long is refused", wait)
	}
	k.ask(t, 1, one("closed", "c"))
	if last := k.kept.List(denials.Filter{Path: "closed"})[0].Last; last.RetryAfter(k.clock.now()) != backend.Never {
		t.Errorf("what never passes is said to pass in %v", last.RetryIn)
	}
}

func TestDenialNamesTheFailurePolicy(t *testing.T) {
	l, _ := newLimiterOn(t, guard.New(away(t), guard.Config{Policy: descriptors.PolicyDeny}), limit.Options{}, refusing)
	k := &keeping{l, new(clock), l.Denials}
	k.ask(t, 1, one("user", "ann"))
	if got, want := k.list(), "user 3/minute 1 of 1 hits denied by policy: user=ann"; got != want {
		t.Errorf("kept is\n%s\nwant\n%s", got, want)
	}
}

func TestAnUnrecordedLimiterKeepsNothing(t *testing.T) {
	for _, unrecorded := range []bool{false, true} {
		l, _, recorder := newLimiterWith(t, limit.Options{Unrecorded: unrecorded}, refusing)
		refused := 0
		for range 5 {
			if denied(ask(t, l, "shop", 1, one("user", "ann"))) {
				refused++
			}
		}
		kept, counted := l.Denials.List(denials.Filter{}), recorded(recorder)
		if refused != 2 || (len(kept) == 0) != unrecorded || (len(counted) == 0) != unrecorded {
			t.Errorf("unrecorded %v: %d are refused, %d denials and the hits of %d rules are kept; want the same verdicts, and nothing kept",
				unrecorded, refused, len(kept), len(counted))
		}
	}
}

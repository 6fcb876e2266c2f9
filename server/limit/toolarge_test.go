package limit_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

// An error would let the request pass wherever Envoy's failure_mode_deny is off, and callers choose what is too large.
func TestTooLargeRequestsAreOverLimit(t *testing.T) {
	const trial = "domain: shop\ndescriptors: [{key: user, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}]"
	ann := one("user", "ann")
	many := limit.Request{Domain: "shop", Descriptors: slices.Repeat([]limit.Descriptor{ann}, limit.MaxDescriptors+1)}
	deep := limit.Request{Domain: "shop", Descriptors: []limit.Descriptor{ann, {Entries: make(descriptors.Descriptor, limit.MaxEntries+1)}}}
	long := limit.Request{Domain: "shop", Cut: true}
	brought := limit.Request{Domain: "shop", Descriptors: append(slices.Clone(many.Descriptors), with(ann, override(1, descriptors.Minute, 1)))}
	elsewhere := many
	elsewhere.Domain = "bar"
	for what, tc := range map[string]struct {
		options limit.Options
		rules   string
		request limit.Request
		over    bool
		result  limit.Result
	}{
		"many descriptors":           {limit.Options{}, shop, many, true, limit.TooLarge},
		"a deep descriptor":          {limit.Options{}, shop, deep, true, limit.TooLarge},
		"a long message":             {limit.Options{}, shop, long, true, limit.TooLarge},
		"where nothing is refused":   {limit.Options{Shadow: true}, shop, many, false, limit.TooLarge},
		"where all rules are shadow": {limit.Options{}, trial, many, false, limit.TooLarge},
		"a limit that it brings":     {limit.Options{}, trial, brought, true, limit.TooLarge},
		"an unknown domain":          {limit.Options{}, shop, elsewhere, false, limit.TooLarge},
	} {
		l, _, _ := newLimiterWith(t, tc.options, tc.rules)
		c := &limit.Call{Request: tc.request}
		err := l.Decide(t.Context(), c)
		if err != nil || denied(c) != tc.over || len(c.Statuses) != 0 || c.Counted() != tc.result {
			t.Errorf("%s: over %v, %d statuses, %v, %v; want over %v, none, %v", what, denied(c), len(c.Statuses), c.Counted(), err, tc.over,
				tc.result)
		}
		if s := ask(t, l, "shop", 1, ann).Statuses[0]; s.Before != 0 {
			t.Errorf("%s: after it %d hits are counted, want none: nothing of a request that is too large is", what, s.Before)
		}
	}
}

func TestTooLargeRequestsAreLoggedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, _, _ := newLimiterWith(t, limit.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, shop)
		for range 3 {
			c := &limit.Call{Request: limit.Request{Domain: "shop", Cut: true}}
			if err := l.Decide(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "domain=shop has=message refused=true") {
			t.Errorf("three requests in 80 s are logged as\n%s\nwant the first and the third, with the domain and what is too large", got)
		}
	})
}

// The error of such a request passes wherever a gateway fails open, and nobody is limited.
func TestInvalidRequestsAreLoggedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, _, _ := newLimiterWith(t, limit.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, shop)
		for _, domain := range []string{"shop", "", ""} {
			c := &limit.Call{Request: limit.Request{Domain: domain}}
			if err := l.Decide(t.Context(), c); c.Counted() != limit.Invalid {
				t.Fatalf("a request for %q without descriptors ends with %v, want it invalid", domain, err)
			}
			time.Sleep(40 * time.Second)
		}
		got := log.String()
		for _, want := range []string{`domain=shop reason="rate limit descriptor list must not be empty" remedy=`,
			`domain="" reason="rate limit domain must not be empty" remedy=`} {
			if strings.Count(got, "\n") != 2 || !strings.Contains(got, want) {
				t.Errorf("three requests in 80 s are logged as\n%s\nwant the first and the third, with %s", got, want)
			}
		}
	})
}

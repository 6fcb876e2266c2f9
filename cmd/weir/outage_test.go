package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// TestOutageIsTwoLogLines: one when requests begin to be decided by policies, which says what these do, and one
// with exact numbers when all servers count again.
func TestOutageIsTwoLogLines(t *testing.T) {
	config := fixture.Config(t, `
domain: shop
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: b, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: login, on_backend_failure: deny, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: watched, on_backend_failure: local, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: free, rate_limit: {unlimited: true}}
`)
	var log strings.Builder
	store := new(byPolicy)
	o := outages{limiter: limit.New(store, limit.Options{}, hits.New(0)), policy: descriptors.PolicyAllow, log: slog.New(slog.NewTextHandler(&log, nil))}
	o.limiter.Apply(config)
	decide := func(p descriptors.Policy, n int) {
		for range n {
			*store = byPolicy(p)
			_ = o.limiter.Decide(t.Context(), &limit.Call{Request: limit.Request{Domain: "shop",
				Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "a"}}}}}})
		}
	}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	looks := func(servers string, n int) (told string) {
		log.Reset()
		for range n {
			o.look(now, strings.Fields(servers))
			now = now.Add(outageInterval)
		}
		return log.String()
	}
	wants := func(promise, got string, want ...string) {
		t.Helper()
		for _, part := range want {
			if strings.Count(got, "\n") != 1 || !strings.Contains(got, part) {
				t.Errorf("%s: the log has %q, want one line with %q", promise, got, part)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("%s: the log has %q, want nothing", promise, got)
		}
	}
	decide(descriptors.PolicyAllow, 100)
	wants("all is well", looks("", 3))
	wants("a pause of a look", looks("h:1", 1)+looks("", 40))
	decide(descriptors.PolicyAllow, 3)
	decide(descriptors.PolicyDeny, 2)
	wants("an outage", looks("h:1 h:2", 20), "level=WARN", `servers="h:1, h:2"`, `allow="requests of 3 rules pass, uncounted"`,
		`deny="requests of 1 rule are denied" remedy=`)
	decide(descriptors.PolicyLocal, 4)
	wants("one that comes and goes is the same", looks("", 16)+looks("h:2", 3)+looks("", 16))
	decide(descriptors.PolicyError, 1)
	wants("its end", looks("", 20), "level=WARN", "after=9.8s allow=3 deny=2 local=4 error=1")
	wants("after it", looks("", 40))
	wants("the next begins at zero", looks("h:1", 2), "level=WARN")
	decide(descriptors.PolicyAllow, 1)
	wants("and ends with its own", looks("", 40), "allow=1 deny=0 local=0 error=0")
	_ = looks("h:1", 2)
	decide(descriptors.PolicyAllow, 7)
	log.Reset()
	o.end("weir ends")
	wants("the end of weir ends it", log.String(), `msg="weir ends" after=500ms allow=7`)
}

// byPolicy is a store that is away, and what a policy decides in its place.
type byPolicy descriptors.Policy

func (p *byPolicy) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		out[i] = backend.Decision{Source: backend.FromPolicy, Reason: backend.Down, Policy: descriptors.Policy(*p)}
	}
	return nil
}

func (*byPolicy) Close() error { return nil }

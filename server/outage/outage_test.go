package outage

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const rules = `
domain: shop
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: b, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: login, on_backend_failure: deny, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: watched, on_backend_failure: local, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: hour}}
  - {key: free, rate_limit: {unlimited: true}}
`

// TestOutageIsTwoLogLines: one when requests begin to be decided by policies, which says what these do, and one
// with exact numbers when all servers count again.
func TestOutageIsTwoLogLines(t *testing.T) {
	config := fixture.Config(t, rules)
	synctest.Test(t, func(t *testing.T) {
		store, log, servers := new(byPolicy), new(process.Output), new(states)
		l := &Log{Servers: servers, Kind: "Redis", Limiter: limit.New(store, limit.Options{}, hits.New(0)),
			Policy: descriptors.PolicyAllow, Log: slog.New(slog.NewTextHandler(log, nil))}
		l.Limiter.Apply(config)
		ctx, end := context.WithCancel(t.Context())
		go l.Run(ctx)
		decide := func(p descriptors.Policy, n int) {
			for range n {
				*store = byPolicy(p)
				_ = l.Limiter.Decide(t.Context(), &limit.Call{Request: limit.Request{Domain: "shop",
					Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "a"}}}}}})
			}
		}
		fail := func(names string, lasts time.Duration) {
			servers.fail(strings.Fields(names))
			time.Sleep(lasts)
			synctest.Wait()
		}
		told := 0
		wants := func(promise string, want ...string) {
			t.Helper()
			got := log.String()[told:]
			told += len(got)
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
		fail("", time.Minute)
		wants("all is well")
		for range 5 {
			fail("h:1", confirmTime-1)
			fail("", time.Millisecond)
		}
		wants("a pause")
		decide(descriptors.PolicyAllow, 3) // before it is noticed
		fail("h:1 h:2", confirmTime-1)
		wants("what may be a pause")
		decide(descriptors.PolicyDeny, 2)
		fail("h:1 h:2", time.Second)
		wants("an outage", "level=WARN", `servers="h:1 (failing), h:2 (failing)"`, `allow="requests of 3 rules pass, uncounted"`,
			`deny="requests of 1 rule are denied" remedy=`)
		decide(descriptors.PolicyLocal, 4)
		fail("", recoveryTime-1)
		fail("h:2", time.Second)
		fail("", recoveryTime-1)
		wants("one that comes and goes is the same")
		decide(descriptors.PolicyError, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wants("its end", "level=WARN", "after=7.2s allow=3 deny=2 local=4 error=1")
		time.Sleep(time.Hour)
		wants("after it")
		fail("h:1", confirmTime)
		wants("the next begins at zero", "level=WARN")
		decide(descriptors.PolicyAllow, 1)
		fail("", recoveryTime)
		wants("and ends with its own", "allow=1 deny=0 local=0 error=0")
		fail("h:1", 500*time.Millisecond)
		wants("another one", "level=WARN")
		decide(descriptors.PolicyAllow, 7)
		end()
		synctest.Wait()
		wants("the end of weir ends it", `msg="weir ends`, "after=500ms allow=7")
	})
}

// states are servers that fail as a test says.
type states struct {
	failing []string
	changed chan<- struct{}
}

func (s *states) Answers() error           { return nil }
func (s *states) Notify(c chan<- struct{}) { s.changed = c }

func (s *states) Servers() map[string]backend.ServerState {
	all := map[string]backend.ServerState{"h:0": backend.ServerUp}
	for _, name := range s.failing {
		all[name] = backend.ServerFailing
	}
	return all
}

// fail makes servers fail, and all others count.
func (s *states) fail(names []string) {
	synctest.Wait()
	s.failing = names
	s.changed <- struct{}{}
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

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

// scene is a log of outages, with what is told of the servers and what the limiter decides meanwhile.
type scene struct {
	*testing.T
	store   *byPolicy
	servers *states
	limiter *limit.Limiter
	log     *process.Output
	told    int
	end     context.CancelFunc // of weir
}

func newScene(t *testing.T, config *descriptors.Config) *scene {
	s := &scene{T: t, store: new(byPolicy), servers: new(states), log: new(process.Output)}
	s.limiter = limit.New(s.store, limit.Options{}, hits.New(0))
	s.limiter.Apply(config)
	var ctx context.Context
	ctx, s.end = context.WithCancel(t.Context())
	l := &Log{Servers: s.servers, Kind: "Redis", Limiter: s.limiter, Policy: descriptors.PolicyAllow,
		Log: slog.New(slog.NewTextHandler(s.log, nil))}
	go l.Run(ctx)
	return s
}

// decide has a policy decide some requests.
func (s *scene) decide(p descriptors.Policy, n int) {
	for range n {
		*s.store = byPolicy(p)
		_ = s.limiter.Decide(s.Context(), &limit.Call{Request: limit.Request{Domain: "shop",
			Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "a"}}}}}})
	}
}

// fail makes servers fail, and all others count, for some time.
func (s *scene) fail(names string, lasts time.Duration) {
	s.servers.fail(strings.Fields(names))
	time.Sleep(lasts)
	synctest.Wait()
}

// wants looks for one new line with these parts, none without parts.
func (s *scene) wants(promise string, want ...string) {
	s.Helper()
	got := s.log.String()[s.told:]
	s.told += len(got)
	for _, part := range want {
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, part) {
			s.Errorf("%s: the log has %q, want one line with %q", promise, got, part)
		}
	}
	if len(want) == 0 && got != "" {
		s.Errorf("%s: the log has %q, want nothing", promise, got)
	}
}

// TestOutageIsTwoLogLines: one when requests begin to be decided by policies, which says what these do, and one
// with exact numbers when all servers count again.
func TestOutageIsTwoLogLines(t *testing.T) {
	config := fixture.Config(t, rules)
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, config)
		s.decide(descriptors.PolicyAllow, 100)
		s.fail("", time.Minute)
		s.wants("all is well")
		for range 5 {
			s.fail("h:1", confirmTime-1)
			s.fail("", confirmTime)
		}
		s.wants("a pause")
		s.decide(descriptors.PolicyAllow, 3) // before it is noticed
		s.fail("h:1 h:2", confirmTime-1)
		s.wants("what may be a pause")
		s.decide(descriptors.PolicyDeny, 2)
		s.fail("h:1 h:2", time.Second)
		s.wants("an outage", "level=WARN", `servers="h:1 (failing), h:2 (failing)"`, `allow="requests of 3 rules pass, uncounted"`,
			`deny="requests of 1 rule are denied" remedy=`)
		s.decide(descriptors.PolicyLocal, 4)
		s.fail("", recoveryTime-1)
		s.fail("h:2", time.Second)
		s.fail("", recoveryTime-1)
		s.wants("one that comes and goes is the same")
		s.decide(descriptors.PolicyError, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wants("its end", "level=WARN", "after=7.2s allow=3 deny=2 local=4 error=1")
		s.decide(descriptors.PolicyAllow, 50) // checks that were only late
		time.Sleep(time.Hour)
		s.wants("after it")
		s.fail("h:1", confirmTime)
		s.wants("the next begins at zero", "level=WARN")
		s.decide(descriptors.PolicyAllow, 1)
		s.fail("", recoveryTime)
		s.wants("and ends with its own", "allow=1 deny=0 local=0 error=0")
		s.fail("h:1", 500*time.Millisecond)
		s.wants("another one", "level=WARN")
		s.decide(descriptors.PolicyAllow, 7)
		s.end()
		synctest.Wait()
		s.wants("the end of weir ends it", `msg="weir ends`, "after=500ms allow=7")
	})
}

// TestFlappingServerIsAnOutage: a slow server is tried after each PING, and is not away for a moment then. A pause that
// is no outage does not prolong one either.
func TestFlappingServerIsAnOutage(t *testing.T) {
	config := fixture.Config(t, rules)
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, config)
		defer s.end()
		s.fail("", time.Minute)
		for range 3 {
			s.fail("h:1", confirmTime/2)
			s.fail("", confirmTime-1)
		}
		s.wants("moments do not hide it", "level=WARN", "cannot count")
		for range 20 {
			s.fail("h:1", confirmTime/2)
			s.fail("", confirmTime-1)
		}
		s.wants("nor end it")
		s.fail("", time.Second)
		s.fail("h:1", confirmTime-1)
		s.fail("", recoveryTime-time.Second)
		s.wants("calm does, but for a pause", "level=WARN", "count again", "after=8.4s")
	})
}

// states are servers that fail as a test says.
type states struct {
	failing []string
	changed chan<- struct{}
}

func (s *states) ProbeErr() error          { return nil }
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

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

// outageTest is a Log with fake servers, and a limiter whose decisions the test makes.
type outageTest struct {
	*testing.T
	store   *policyStore
	servers *fakeServers
	limiter *limit.Limiter
	log     *process.Output
	logRead int
	end     context.CancelFunc // of weir
}

func newOutageTest(t *testing.T, config *descriptors.Config) *outageTest {
	s := &outageTest{T: t, store: new(policyStore), servers: new(fakeServers), log: new(process.Output)}
	s.limiter = limit.New(s.store, limit.Options{}, hits.New(0))
	s.limiter.Apply(config)
	var ctx context.Context
	ctx, s.end = context.WithCancel(t.Context())
	l := &Log{Servers: s.servers, Kind: "Redis", Limiter: s.limiter, Policy: descriptors.PolicyAllow,
		Log: slog.New(slog.NewTextHandler(s.log, nil))}
	go l.Run(ctx)
	return s
}

// decide makes a policy decide n requests.
func (s *outageTest) decide(p descriptors.Policy, n int) {
	for range n {
		*s.store = policyStore(p)
		_ = s.limiter.Decide(s.Context(), &limit.Call{Request: limit.Request{Domain: "shop",
			Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "a"}}}}}})
	}
}

// fail makes the named servers fail, and all others count, for some time.
func (s *outageTest) fail(names string, lasts time.Duration) {
	s.servers.fail(strings.Fields(names))
	time.Sleep(lasts)
	synctest.Wait()
}

// wantLine fails the test unless the log has one new line with all these parts or, if there are none, no new line.
func (s *outageTest) wantLine(promise string, want ...string) {
	s.Helper()
	got := s.log.String()[s.logRead:]
	s.logRead += len(got)
	for _, part := range want {
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, part) {
			s.Errorf("%s: the log has %q, want one line with %q", promise, got, part)
		}
	}
	if len(want) == 0 && got != "" {
		s.Errorf("%s: the log has %q, want nothing", promise, got)
	}
}

// The first line comes when policies begin to decide requests, with their effects; the second has the exact numbers, when
// all servers count again.
func TestOutageIsTwoLogLines(t *testing.T) {
	config := fixture.Config(t, rules)
	synctest.Test(t, func(t *testing.T) {
		s := newOutageTest(t, config)
		s.decide(descriptors.PolicyAllow, 100)
		s.fail("", time.Minute)
		s.wantLine("all is well")
		for range 5 {
			s.fail("h:1", confirmTime-1)
			s.fail("", confirmTime)
		}
		s.wantLine("a pause")
		s.decide(descriptors.PolicyAllow, 3) // before it is noticed
		s.fail("h:1 h:2", confirmTime-1)
		s.wantLine("what may be a pause")
		s.decide(descriptors.PolicyDeny, 2)
		s.fail("h:1 h:2", time.Second)
		s.wantLine("an outage", "level=WARN", `servers="h:1 (failing), h:2 (failing)"`, `allow="requests of 3 rules pass, uncounted"`,
			`deny="requests of 1 rule are denied" remedy=`)
		s.decide(descriptors.PolicyLocal, 4)
		s.fail("", recoveryTime-1)
		s.fail("h:2", time.Second)
		s.fail("", recoveryTime-1)
		s.wantLine("one that comes and goes is the same")
		s.decide(descriptors.PolicyError, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		s.wantLine("its end", "level=WARN", "after=7.2s allow=3 deny=2 local=4 error=1")
		s.decide(descriptors.PolicyAllow, 50) // checks that were only late
		time.Sleep(time.Hour)
		s.wantLine("after it")
		s.fail("h:1", confirmTime)
		s.wantLine("the next begins at zero", "level=WARN")
		s.decide(descriptors.PolicyAllow, 1)
		s.fail("", recoveryTime)
		s.wantLine("and ends with its own", "allow=1 deny=0 local=0 error=0")
		s.fail("h:1", 500*time.Millisecond)
		s.wantLine("another one", "level=WARN")
		s.decide(descriptors.PolicyAllow, 7)
		s.end()
		synctest.Wait()
		s.wantLine("the end of weir ends it", `msg="servers of Redis still cannot count at shutdown"`, "after=500ms allow=7")
	})
}

// A slow server is tried after each PING, and is not away for that moment: the outage goes on. Other short pauses do not
// prolong an outage.
func TestFlappingServerIsAnOutage(t *testing.T) {
	config := fixture.Config(t, rules)
	synctest.Test(t, func(t *testing.T) {
		s := newOutageTest(t, config)
		defer s.end()
		s.fail("", time.Minute)
		for range 3 {
			s.fail("h:1", confirmTime/2)
			s.fail("", confirmTime-1)
		}
		s.wantLine("moments do not hide it", "level=WARN", "cannot count")
		for range 20 {
			s.fail("h:1", confirmTime/2)
			s.fail("", confirmTime-1)
		}
		s.wantLine("nor end it")
		s.fail("", time.Second)
		s.fail("h:1", confirmTime-1)
		s.fail("", recoveryTime-time.Second)
		s.wantLine("calm does, but for a pause", "level=WARN", "count again", "after=8.4s")
	})
}

// fakeServers are servers whose states the test sets.
type fakeServers struct {
	failing []string
	changed chan<- struct{}
}

func (s *fakeServers) ProbeErr() error          { return nil }
func (s *fakeServers) Notify(c chan<- struct{}) { s.changed = c }

func (s *fakeServers) Servers() map[string]backend.ServerState {
	all := map[string]backend.ServerState{"h:0": backend.ServerUp}
	for _, name := range s.failing {
		all[name] = backend.ServerFailing
	}
	return all
}

// fail makes the named servers fail, and all others count.
func (s *fakeServers) fail(names []string) {
	synctest.Wait()
	s.failing = names
	s.changed <- struct{}{}
}

// policyStore answers each check as this policy decides while the store is away.
type policyStore descriptors.Policy

func (p *policyStore) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		out[i] = backend.Decision{Source: backend.FromPolicy, Reason: backend.Down, Policy: descriptors.Policy(*p)}
	}
	return nil
}

func (*policyStore) Close() error { return nil }

package stats

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// scrapeLines returns the lines of a scrape with this prefix, sorted.
func (m *Metrics) scrapeLines(prefix string) []string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var found []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	slices.Sort(found)
	return found
}

// expect fails the test unless the lines of a scrape with this prefix are exactly want.
func (m *Metrics) expect(t *testing.T, why, prefix, want string) {
	t.Helper()
	lines := slices.Sorted(strings.FieldsFuncSeq(want, func(r rune) bool { return r == '\n' }))
	if got := m.scrapeLines(prefix); !slices.Equal(got, lines) {
		t.Errorf("%s: a scrape has\n%s\nwant\n%s", why, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// newLimited returns metrics with a limiter that has no configuration yet.
func newLimited(store backend.Counter) (*Metrics, *limit.Limiter) {
	m, recorder := New("test"), hits.New(0)
	l := limit.New(store, limit.Options{}, recorder)
	m.RegisterLimiter(l)
	m.RegisterHits(recorder)
	return m, l
}

const oneRule = "domain: shop\ndescriptors:\n- {key: user, rate_limit: {requests_per_unit: 1, unit: day}}\n"

func ofUser(domain string) *limit.Call {
	return &limit.Call{Request: limit.Request{Domain: domain,
		Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}}}}}}
}

func TestMetricsShowTheConfigurationInForce(t *testing.T) {
	m, l := newLimited(nil)
	const loads = `
weir_config_loads_total{result="applied"} %d
weir_config_loads_total{result="rejected"} %d
weir_config_current %d
`
	m.expect(t, "before the first", "weir_config_", fmt.Sprintf(loads, 0, 0, 0)+`
weir_config_rules 0
weir_config_broken_domains 0
weir_config_loaded_timestamp_seconds 0`)
	c := fixture.Config(t, oneRule)
	l.Apply(c)
	m.ConfigApplied(time.Unix(1_700_000_000, 0))
	inForce := fmt.Sprintf(`
weir_config_info{hash=%q} 1
weir_config_rules 1
weir_config_broken_domains 0
weir_config_loaded_timestamp_seconds 1.7e+09`, c.Hash())
	m.expect(t, "the first", "weir_config_", fmt.Sprintf(loads, 1, 0, 1)+inForce)
	m.ConfigRejected()
	m.expect(t, "one that was rejected leaves what is in force", "weir_config_", fmt.Sprintf(loads, 1, 1, 0)+inForce)
}

func TestDomainSeriesExistBeforeTheFirstRequest(t *testing.T) {
	m, l := newLimited(nil)
	l.Apply(fixture.Config(t, oneRule))
	_ = l.Decide(t.Context(), ofUser("shpo"))
	var want strings.Builder
	for _, domain := range []string{descriptors.UnknownDomainName, "shop"} {
		for _, outcome := range []string{"ok", "over", "invalid", "unavailable", "shadow", "too_large"} {
			n := 0
			if domain == descriptors.UnknownDomainName && outcome == "ok" {
				n = 1
			}
			fmt.Fprintf(&want, "weir_domain_requests_total{domain=%q,outcome=%q} %d\n", domain, outcome, n)
		}
	}
	m.expect(t, "after a request of an unknown domain", "weir_domain_requests_total{", want.String())
	// A domain and a rule may have the names that stand for unknown domains and unmatched descriptors.
	l.Apply(fixture.Config(t, "domain: __unknown__\ndescriptors:\n- {key: __unmatched__, rate_limit: {unlimited: true}}\n"))
	m.expect(t, "a series that is there twice spoils all of it", "weir_config_rules", "weir_config_rules 1")
}

// lateStore is a store whose checks a failure policy decides.
type lateStore struct{ backend.Counter }

func (lateStore) Decide(_ context.Context, _ []backend.Check, out []backend.Decision) error {
	out[0] = backend.Decision{Source: backend.FromPolicy, Reason: backend.Late, Policy: descriptors.PolicyDeny}
	return nil
}

func TestDegradedSeriesExistBeforeTheFirstDecision(t *testing.T) {
	m, l := newLimited(lateStore{})
	l.Apply(fixture.Config(t, oneRule))
	if err := l.Decide(t.Context(), ofUser("shop")); err != nil {
		t.Fatal(err)
	}
	got := m.scrapeLines("weir_degraded_total{")
	if len(got) != (backend.Reasons-1)*(descriptors.Policies-1) ||
		!slices.Contains(got, `weir_degraded_total{policy="deny",reason="late"} 1`) ||
		!slices.Contains(got, `weir_degraded_total{policy="local",reason="refused"} 0`) {
		t.Errorf("a scrape has\n%s\nwant each reason by each policy", strings.Join(got, "\n"))
	}
}

func TestEachConfiguredLimitIsAGauge(t *testing.T) {
	m, l := newLimited(nil)
	m.expect(t, "without a configuration", "weir_limit_requests{", "")
	l.Apply(fixture.Config(t, `
domain: shop
descriptors:
- key: user
  rate_limits:
  - {requests_per_unit: 10, unit: minute}
  - {requests_per_unit: 10, unit: minute, algorithm: fixed_window}
  - {requests_per_unit: 500, unit: hour, unit_multiplier: 2}
- {key: path, value: /a, rate_limit: {requests_per_unit: 0, unit: day}}
- {key: free, rate_limit: {unlimited: true}}
`))
	m.expect(t, "each once, though two limits read alike", "weir_limit_requests{", `
weir_limit_requests{domain="shop",limit="0/day",path="path=%2Fa"} 0
weir_limit_requests{domain="shop",limit="10/minute",path="user"} 10
weir_limit_requests{domain="shop",limit="500/2hour",path="user"} 500`)
}

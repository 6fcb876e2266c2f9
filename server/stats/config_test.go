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
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// shows returns the lines of a scrape that begin with one of these, sorted.
func (m *Metrics) shows(prefixes ...string) []string {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var found []string
	for line := range strings.Lines(w.Body.String()) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	slices.Sort(found)
	return found
}

const oneRule = "domain: shop\ndescriptors:\n- {key: user, rate_limit: {requests_per_unit: 1, unit: day}}\n"

func TestWhichConfigurationIsInForceIsShown(t *testing.T) {
	m, l := New("test"), limit.New(nil, limit.Options{}, hits.New(0))
	m.Limiter(l)
	expect := func(why string, want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := m.shows("weir_config_"); !slices.Equal(got, want) {
			t.Errorf("%s: a scrape has\n%s\nwant\n%s", why, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	loads := func(applied, rejected, current int) []string {
		return []string{fmt.Sprintf(`weir_config_loads_total{result="applied"} %d`, applied),
			fmt.Sprintf(`weir_config_loads_total{result="rejected"} %d`, rejected), fmt.Sprint("weir_config_current ", current)}
	}
	expect("before the first", append(loads(0, 0, 0), "weir_config_rules 0", "weir_config_domains 0", "weir_config_broken_domains 0",
		"weir_config_loaded_timestamp_seconds 0")...)
	c := fixture.Config(t, oneRule)
	l.Apply(c)
	m.ConfigApplied(time.Unix(1_700_000_000, 0))
	inForce := []string{fmt.Sprintf("weir_config_info{hash=%q} 1", c.Hash()), "weir_config_rules 1", "weir_config_domains 1",
		"weir_config_broken_domains 0", "weir_config_loaded_timestamp_seconds 1.7e+09"}
	expect("the first", append(inForce, loads(1, 0, 1)...)...)
	m.ConfigRejected()
	expect("one that was rejected leaves what is in force", append(inForce, loads(1, 1, 0)...)...)
}

func TestRequestsOfADomainAreThereBeforeTheFirst(t *testing.T) {
	m, l := New("test"), limit.New(nil, limit.Options{}, hits.New(0))
	m.Limiter(l)
	l.Apply(fixture.Config(t, oneRule))
	_ = l.Decide(context.Background(), &limit.Call{Request: limit.Request{Domain: "shpo",
		Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "user", Value: "ann"}}}}}})
	got := m.shows("weir_domain_requests_total{")
	for _, domain := range []string{limit.NoDomain, history.UnknownDomain, "shop"} {
		for _, outcome := range []string{"ok", "over_limit", "invalid", "unavailable", "shadowed"} {
			want := fmt.Sprintf("weir_domain_requests_total{domain=%q,outcome=%q} 0", domain, outcome)
			if domain == history.UnknownDomain && outcome == "ok" {
				want = strings.TrimSuffix(want, "0") + "1"
			}
			if !slices.Contains(got, want) {
				t.Errorf("a scrape lacks %s", want)
			}
		}
	}
	if len(got) != 15 {
		t.Errorf("a scrape has %d series, want 15:\n%s", len(got), strings.Join(got, "\n"))
	}
}

// counting is a store that decides each check in its way.
type counting func(*backend.Decision)

func (c counting) Decide(_ context.Context, checks []backend.Check, out []backend.Decision) error {
	for i := range checks {
		c(&out[i])
	}
	return nil
}

func (counting) Close() error { return nil }

func TestDegradedDecisionsAreThereBeforeTheFirst(t *testing.T) {
	late := counting(func(d *backend.Decision) {
		*d = backend.Decision{Source: backend.FromPolicy, Reason: backend.Late, Policy: descriptors.PolicyDeny}
	})
	m, l := New("test"), limit.New(late, limit.Options{}, hits.New(0))
	m.Limiter(l)
	l.Apply(fixture.Config(t, "domain: shop\ndescriptors:\n- {key: user, rate_limit: {requests_per_unit: 1, unit: day}}\n"))
	c := limit.Call{Request: limit.Request{Domain: "shop", Descriptors: []limit.Descriptor{{Entries: descriptors.Descriptor{{Key: "user"}}}}}}
	if err := l.Decide(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	got := m.shows("weir_degraded_total{")
	if len(got) != 20 || !slices.Contains(got, `weir_degraded_total{policy="deny",reason="late"} 1`) ||
		!slices.Contains(got, `weir_degraded_total{policy="local",reason="refused"} 0`) {
		t.Errorf("a scrape has\n%s\nwant each of 5 reasons by each of 4 policies", strings.Join(got, "\n"))
	}
	if got := m.shows("weir_degraded_decisions_total{"); len(got) != 1 {
		t.Errorf("a scrape has %v, want one series: rules, reasons and policies multiply", got)
	}
}

// The names that stand for what no rule has may be those of a rule, and one file may have all of them.
func TestNamesThatStandForOthersMayBeConfigured(t *testing.T) {
	m, recorder := New("test"), hits.New(0)
	l := limit.New(nil, limit.Options{}, recorder)
	m.Limiter(l)
	m.Hits(recorder)
	rules := "descriptors:\n- {key: __unmatched__, rate_limit: {unlimited: true}}\n"
	l.Apply(fixture.Config(t, "domain: __unknown__\n"+rules, "domain: __none__\n"+rules))
	if got := m.shows("weir_config_rules"); !slices.Equal(got, []string{"weir_config_rules 2"}) {
		t.Errorf("a scrape has %v: a series that is there twice spoils all of it", got)
	}
}

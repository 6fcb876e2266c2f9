package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

func rulesOf(t *testing.T, files ...string) inForce {
	t.Helper()
	return inForce{fixture.Config(t, files...)}
}

// askRules asks for the rules, as one who knows those of a tag.
func askRules(p Parts, known string) *httptest.ResponseRecorder {
	return send(serving(p), "GET", "/api/v1/rules", func(r *http.Request) { r.Header.Set("If-None-Match", known) })
}

func loadedAt(at int64) func() time.Time { return func() time.Time { return time.Unix(at, 0) } }

func TestRulesListsTheRulesInForce(t *testing.T) {
	const mail = `
domain: mail
descriptors: [{key: from, value: "a,b=c/d%", rate_limit: {unit: day, requests_per_unit: 0}}]`
	const shop = `
domain: shop
descriptors:
  - key: user
    rate_limits:
      - {name: user-minute, unit: minute, requests_per_unit: 10}
      - {unit: hour, unit_multiplier: 6, requests_per_unit: 4294967295}
    descriptors:
      - {key: path, value: /pay, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 9}}
      - {key: path, value: "/static/*", rate_limit: {unlimited: true}}
  - {key: plan, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1, algorithm: fixed_window}}
  - {key: nothing}
  - {key: shared, value: "a*", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 1}}`
	w := askRules(Parts{Rules: rulesOf(t, shop, mail), Loaded: loadedAt(1795262433)}, "")
	const want = `{"loaded":1795262433,"serves":["rules"],"rules":[` +
		`{"domain":"mail","path":"from=a,b%3Dc%2Fd%25","limits":[{"text":"0/day","requests":0,"window":86400,"algorithm":"sliding_window","name":""}],"each":[],"shadow":false,"unlimited":false,"quota":false},` +
		`{"domain":"shop","path":"plan","limits":[{"text":"1/minute","requests":1,"window":60,"algorithm":"fixed_window","name":""}],"each":["plan"],"shadow":false,"unlimited":false,"quota":true},` +
		`{"domain":"shop","path":"shared=a*","limits":[{"text":"1/minute","requests":1,"window":60,"algorithm":"sliding_window","name":""}],"each":[],"shadow":false,"unlimited":false,"quota":false},` +
		`{"domain":"shop","path":"user","limits":[{"text":"10/minute","requests":10,"window":60,"algorithm":"sliding_window","name":"user-minute"},` +
		`{"text":"4294967295/6hour","requests":4294967295,"window":21600,"algorithm":"sliding_window","name":""}],"each":["user"],"shadow":false,"unlimited":false,"quota":false},` +
		`{"domain":"shop","path":"user/path=%2Fpay","limits":[{"text":"5/second","requests":5,"window":1,"burst":9,"algorithm":"token_bucket","name":""}],"each":["user"],"shadow":true,"unlimited":false,"quota":false},` +
		`{"domain":"shop","path":"user/path=%2Fstatic%2F*","limits":[],"each":["user","path"],"shadow":false,"unlimited":true,"quota":false}]}`
	bounds := regexp.MustCompile(`,"bound":"[^"]*at most \d+ in any [^"]+"`)
	if found := bounds.FindAllString(w.Body.String(), -1); len(found) != 6 || !strings.HasPrefix(found[5], `,"bound":"none: in shadow mode nothing is denied; without it at most 14 in any 1s: 9 at once`) {
		t.Errorf("the bounds are %q, want one for each limit", found)
	}
	if got := bounds.ReplaceAllString(strings.ReplaceAll(w.Body.String(), "\n", ""), ""); w.Code != 200 || got != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("got %d %s\n%s\nwant\n%s", w.Code, w.Header().Get("Content-Type"), got, want)
	}
}

func TestRulesAnswersWithoutAConfiguration(t *testing.T) {
	history := newKept(t, noon).History
	for _, c := range []struct {
		promise string
		parts   Parts
		want    string
	}{
		{"no configuration yet", Parts{Rules: inForce{}, Loaded: loadedAt(0)}, `{"loaded":0,"serves":["rules"],"rules":[]}`},
		{"a history alone", Parts{History: history}, `{"loaded":0,"serves":["history"],"rules":[]}`},
		{"nothing", Parts{}, `{"loaded":0,"serves":[],"rules":[]}`},
	} {
		if w := askRules(c.parts, ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != c.want {
			t.Errorf("%s: got %d %s\nwant %s", c.promise, w.Code, w.Body, c.want)
		}
	}
}

func TestUnchangedRulesAreNotSentAgain(t *testing.T) {
	const rule = "domain: a\ndescriptors: [{key: k, rate_limit: {unit: minute, requests_per_unit: %d}}]"
	before := Parts{Rules: rulesOf(t, fmt.Sprintf(rule, 1)), Loaded: loadedAt(1)}
	tag := askRules(before, "").Header().Get("ETag")
	for _, known := range []string{tag, `"x", W/` + tag, `"x",` + tag} {
		if w := askRules(before, known); w.Code != 304 || w.Body.Len() > 0 || w.Header().Get("ETag") != tag {
			t.Errorf("known as %s: got %d %s; want 304", known, w.Code, w.Body)
		}
	}
	changed := Parts{Rules: rulesOf(t, fmt.Sprintf(rule, 2)), Loaded: loadedAt(1)}
	again := Parts{Rules: before.Rules, Loaded: loadedAt(2)}
	more := before
	more.History = newKept(t, noon).History
	for promise, after := range map[string]Parts{"another limit": changed, "loaded again": again, "a history": more} {
		if w := askRules(after, tag); w.Code != 200 || w.Header().Get("ETag") == tag {
			t.Errorf("%s: got %d with the tag %s; want an answer with another", promise, w.Code, w.Header().Get("ETag"))
		}
	}
}

type inForce struct{ config *descriptors.Config }

func (c inForce) Config() *descriptors.Config { return c.config }

func TestRlconfigListsRulesLikeRatelimit(t *testing.T) {
	const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: MINUTE, requests_per_unit: 20}
    descriptors:
      - {key: path, value: /pay=1%, quota_mode: true, rate_limit: {unit: week, requests_per_unit: 4294967295}}
  - {key: plan, value: "gold*", shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: nothing}
  - {key: several, rate_limits: [{unit: minute, requests_per_unit: 10}, {unit: hour, unit_multiplier: 6, requests_per_unit: 500}]}
`
	const bank = "domain: bank\ndescriptors: [{key: a, value: b, rate_limit: {unit: second, requests_per_unit: 1}}]"
	want := `bank.a_b: unit=SECOND requests_per_unit=1, shadow_mode: false, quota_mode: false
shop.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false
shop.plan_gold*: unit=DAY requests_per_unit=0, shadow_mode: true, quota_mode: false
shop.several: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false
shop.several: unit=HOUR requests_per_unit=500, shadow_mode: false, quota_mode: false, unit_multiplier: 6
shop.user: unit=MINUTE requests_per_unit=20, shadow_mode: false, quota_mode: false
shop.user.path_/pay=1%: unit=WEEK requests_per_unit=4294967295, shadow_mode: false, quota_mode: true
`
	config := fixture.ConfigWith(t, yaml.Options{Algorithm: descriptors.FixedWindow}, shop, bank)
	w := get(serving(Parts{Rules: inForce{config}}), "/rlconfig")
	if got := w.Body.String(); w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || got != want {
		t.Errorf("/rlconfig gives %d %q\n%s\nwant text:\n%s", w.Code, w.Header().Get("Content-Type"), got, want)
	}
}

// What is served is asked for where answers have their turns.
func TestMissingPartsAreNotServed(t *testing.T) {
	bare := serving(Parts{})
	listed := get(bare, "/help").Body.String()
	for _, path := range []string{"/stats", "/rlconfig", "/debug/pprof/"} {
		if code := get(bare, path).Code; code != 404 || !strings.Contains(listed, path) {
			t.Errorf("%s, which is not served, is answered with %d, and the list of all that there can be is %q", path, code, listed)
		}
	}
}

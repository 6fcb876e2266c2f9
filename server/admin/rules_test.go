package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

type inForce struct{ config *descriptors.Config }

func (c inForce) Config() *descriptors.Config { return c.config }

// rulesShown is what /rlconfig shows of files.
func rulesShown(t *testing.T, o yaml.Options, files ...string) string {
	t.Helper()
	var config *descriptors.Config
	if len(files) > 0 {
		config = fixture.ConfigWith(t, o, files...)
	}
	w := get(serving(Parts{Rules: inForce{config}}), "/rlconfig")
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("/rlconfig gives %d %q, want text", w.Code, w.Header().Get("Content-Type"))
	}
	return w.Body.String()
}

func TestRulesAreShownInTheLinesOfRatelimit(t *testing.T) {
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
	if got := rulesShown(t, yaml.Options{Algorithm: descriptors.FixedWindow}, shop, bank); got != want {
		t.Errorf("/rlconfig shows\n%s\nwant\n%s", got, want)
	}
	if got := rulesShown(t, yaml.Options{}); got != "" {
		t.Errorf("without a configuration /rlconfig shows %q, want nothing", got)
	}
}

func TestThePortListsWhatItServes(t *testing.T) {
	text := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a.b: 1\n")) })
	full := serving(Parts{Metrics: text, Stats: text, Rules: inForce{}, Profiles: true})
	bare := serving(Parts{Metrics: text})
	listed, barelyListed := get(full, "/").Body.String(), get(bare, "/").Body.String()
	if !strings.Contains(listed, "/api/v1/history/verify?") {
		t.Errorf("the history is not listed:\n%s", listed)
	}
	for _, path := range []string{"/stats", "/rlconfig", "/debug/pprof/"} {
		if code := get(full, path).Code; code != 200 || !strings.Contains(listed, path) {
			t.Errorf("%s is answered with %d and listed as %q", path, code, listed)
		}
		if code := get(bare, path).Code; code != 404 || strings.Contains(barelyListed, path) {
			t.Errorf("%s, which is not served, is answered with %d and listed as %q", path, code, barelyListed)
		}
	}
}

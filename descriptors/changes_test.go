package descriptors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
)

// TestAReloadSaysWhatChanged: each case replaces texts in the same files.
func TestAReloadSaysWhatChanged(t *testing.T) {
	const shop = `domain: shop
descriptors:
  - key: user
    rate_limits: [{requests_per_unit: 10, unit: minute}, {requests_per_unit: 500, unit: hour}]
    descriptors: [{key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}]
  - {key: free, rate_limit: {unlimited: true}}
  - {key: open}
`
	const bank = "domain: bank\ndescriptors:\n  - {key: login, rate_limit: {requests_per_unit: 1, unit: second}}\n"
	before := fixture.Config(t, shop, bank)
	for _, c := range []struct {
		promise string
		replace []string
		want    []string
	}{
		{"nothing", nil, nil},
		{"other lines and a comment are no change", []string{"descriptors:\n  - key: user", "descriptors:\n\n# c\n  - key: user"}, nil},
		{"a limit", []string{"requests_per_unit: 5,", "requests_per_unit: 20,"}, []string{"shop user/path=/pay: 5/minute → 20/minute"}},
		{"one limit of two", []string{"unit: hour", "unit: day"},
			[]string{"shop user: 10/minute, 500/hour → 10/minute, 500/day"}},
		{"several keys", []string{"{key: login, rate_limit: {requests_per_unit: 1,", "{key: login, shadow_mode: true, on_backend_failure: deny, " +
			"rate_limit: {algorithm: fixed_window, requests_per_unit: 2,"},
			[]string{"bank login: 1/second → 2/second (on_backend_failure: deny) (shadow: never denies)"}},
		{"a key that is not shown", []string{"{key: login,", "{key: login, charge: always,"},
			[]string{"bank login: 1/second as before, other keys changed"}},
		{"a limit that is none any more", []string{"rate_limit: {requests_per_unit: 5, unit: minute}", "rate_limit: {unlimited: true}"},
			[]string{"shop user/path=/pay: 5/minute → unlimited"}},
		{"rules that come and go", []string{"key: free", "key: paid"}, []string{"shop paid: new, unlimited", "shop free: gone, was unlimited"}},
		{"what has no rule", []string{"  - {key: open}\n", ""},
			[]string{"shop: other than its rules: what passes, the order of patterns, or refund_on_deny"}},
		{"a domain for another", []string{"domain: bank", "domain: cash"},
			[]string{"bank: the domain is gone, rules: 1", "cash: a new domain, rules: 1"}},
	} {
		edit := strings.NewReplacer(c.replace...).Replace
		if got := fixture.Config(t, edit(shop), edit(bank)).Changes(before); !slices.Equal(got, c.want) {
			t.Errorf("%s: the log is to say %q, want %q", c.promise, got, c.want)
		}
	}
}

package descriptors_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
)

// TestReloadReportsItsChanges: each case replaces texts in the same files. Replicas are compared by the hash.
func TestReloadReportsItsChanges(t *testing.T) {
	const shop = `domain: shop
descriptors:
  - key: user
    rate_limits: [{requests_per_unit: 10, unit: minute}, {requests_per_unit: 500, unit: hour}]
    descriptors: [{key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}]
  - {key: free, rate_limit: {unlimited: true}}
  - {key: open}
  - {key: file, value: /a*}
  - {key: file, value: '*b'}
`
	const bank = "domain: bank\ndescriptors:\n  - {key: login, rate_limit: {requests_per_unit: 1, unit: second}}\n"
	const other = "shop: other than its rules: what passes, the order of patterns, or refund_on_deny"
	before := fixture.Config(t, shop, bank)
	if all := before.Rules(); len(all) != 4 || all[2].Number != 2 || all[3].Domain != "bank" || all[3].Number != 0 {
		t.Fatalf("the rules are %v, want those of both domains, numbered in each", all)
	}
	for _, c := range []struct {
		promise string
		replace []string
		want    []string
	}{
		{"nothing", nil, nil},
		{"other lines and a comment are no change", []string{"descriptors:\n  - key: user", "descriptors:\n\n# c\n  - key: user"}, nil},
		{"nor is another order", []string{"  - {key: open}\n", "", "  - {key: free,", "  - {key: open}\n  - {key: free,"}, nil},
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
		{"what has no rule", []string{"  - {key: open}\n", ""}, []string{other}},
		{"its text, cut otherwise", []string{"{key: open}", "{key: ope, value: n}"}, []string{other}},
		{"the order of patterns", []string{"/a*", "'*b'", "'*b'", "/a*"}, []string{other}},
		{"what is given back", []string{"domain: shop", "refund_on_deny: true\ndomain: shop"}, []string{other}},
		{"a domain for another", []string{"domain: bank", "domain: cash"},
			[]string{"bank: the domain is gone, rules: 1", "cash: a new domain, rules: 1"}},
	} {
		edit := strings.NewReplacer(c.replace...).Replace
		now := fixture.Config(t, edit(shop), edit(bank))
		if got := now.Changes(before); !slices.Equal(got, c.want) {
			t.Errorf("%s: the log is to say %q, want %q", c.promise, got, c.want)
		}
		if h := now.Hash(); (h != before.Hash()) != (c.want != nil) || h != fixture.Config(t, edit(bank), edit(shop)).Hash() {
			t.Errorf("%s: the hash is %s, and was %s: replicas that decide otherwise would look alike, or the reverse", c.promise, h, before.Hash())
		}
	}
	broken := func(names ...string) string { return descriptors.NewConfig(descriptors.Keys{}, nil, names).Hash() }
	if broken("y", "z") != broken("z", "y") || broken("y", "z") == broken("yz") {
		t.Error("the hash is of the order of broken domains, or not of their names")
	}
}

package descriptors_test

import "testing"

func TestAPathThatNoRuleHasIsAnsweredWithThoseThatHoldIt(t *testing.T) {
	c := parse(t, `
domain: shop
descriptors:
  - key: user
    rate_limit: {unlimited: true}
    descriptors: [{key: path, value: /pay, rate_limit: {unlimited: true}}]
`)
	for asked, want := range map[string]string{
		"/pay":   "No rule of domain shop has the path /pay; these hold it: user/path=/pay.",
		"/PAY":   "No rule of domain shop has the path /PAY; these hold it: user/path=/pay.",
		"%2fpay": "No rule of domain shop has the path %2fpay; these hold it: user/path=/pay.",
		"login":  "No rule of domain shop has the path login; weir check DIR lists the rules.",
	} {
		if got := c.MissingPath("shop", asked); got != want {
			t.Errorf("asked for %s: %q, want %q: people know a part of the path", asked, got, want)
		}
	}
	if got, want := c.MissingPath("", "user/"), "No rule has the path user/; these hold it: user/path=/pay."; got != want {
		t.Errorf("in any domain: %q, want %q", got, want)
	}
	if got := c.MissingPath("bank", "/pay"); got != "No rule of domain bank has the path /pay; weir check DIR lists the rules." {
		t.Errorf("a path of another domain is named: %q", got)
	}
}

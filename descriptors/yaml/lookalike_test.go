package yaml

import (
	"fmt"
	"testing"
)

// suspicion parses one descriptor and returns the warning that it gets, without its place.
func suspicion(t *testing.T, key, value string, o Options) string {
	t.Helper()
	text := fmt.Sprintf("domain: d\ndescriptors:\n- key: %q\n  value: %q\n  rate_limit: {unit: day, requests_per_unit: 5}", key, value)
	c, problems := Parse([]File{{"f", []byte(text)}}, o)
	if c == nil || len(problems) > 1 || len(problems) == 1 && (!problems[0].Warning || problems[0].Line != 4 && !o.NoLines) {
		t.Fatalf("%s=%s: got %v, want at most one warning, of line 4", key, value, problems)
	}
	if len(problems) == 0 {
		return ""
	}
	return problems[0].Text
}

func TestAValueThatMatchesLessThanItsAuthorMeantIsWarnedOf(t *testing.T) {
	const (
		isRegular = " looks like a regular expression, but matches as it is written: only * has a meaning, which is any characters or none"
		isRange   = " matches only that text, not the addresses in it: have Envoy send the range that an address is in, by its action " +
			"masked_remote_address with v4_prefix_mask_len or v6_prefix_mask_len, and use the key masked_remote_address"
	)
	for _, test := range []struct{ key, value, want string }{
		{"remote_address", "10.0.0.0/8", isRange}, {"ip", "192.0.2.7/32", isRange}, {"k", "2001:db8::/32", isRange},
		{"path", "^/b/.*$", isRegular}, {"path", ".*", isRegular}, {"user", "[a-z]+", isRegular}, {"path", "/api/.*", isRegular},
		{"path", `/v\d+/x`, isRegular}, {"host", `example\.com`, isRegular}, {"method", "(GET|POST)", isRegular},
	} {
		want := "value " + test.value + test.want
		if got := suspicion(t, test.key, test.value, Options{}); got != want {
			t.Errorf("%s=%s\n got %q\nwant %q", test.key, test.value, got, want)
		}
		if got := suspicion(t, test.key, test.value, Options{NoLines: true}); got != "" {
			t.Errorf("%s=%s without lines: got %q, want none: a machine wrote it", test.key, test.value, got)
		}
	}
}

// A warning of what is meant as it is written would only teach people to overlook warnings.
func TestValuesThatAreMeantAsTheyAreWrittenAreNotWarnedOf(t *testing.T) {
	for _, e := range [][2]string{
		// What Envoy Gateway and its AI gateway send.
		{"masked_remote_address", "10.0.0.0/8"}, {"masked_remote_address", "invert:10.0.0.0/8"}, {"rule-0-match-0", "rule-0-match-0"},
		{"httproute/ns/n/rule/0/match/0/*_example_com", "httproute/ns/n/rule/0/match/0/*_example_com"},
		{"rule-0-x-model|^gpt-.*$-match-0", "rule-0-x-model|^gpt-.*$-match-0"}, {"model_name_override", "meta/llama-3.1:8b"},
		// What Envoy's own actions send from its configuration.
		{"generic_key", "10.0.0.0/8"}, {"header_match", "^/b/.*$"}, {"query_match", ".*"}, {"office_network", "10.0.0.0/8"},
		// What people write.
		{"path", "/a/*"}, {"path", "*/export"}, {"path", "*.css"}, {"path", "/.well-known/*"}, {"path", "/.*"}, {"path", "/users/:id"},
		{"path", "/index.php?action=login"}, {"path", "/search?q=*"}, {"path", "/a(b)"}, {"path", "/a+b"}, {"path", "/$metadata"},
		{"path", "/a$"}, {"path", "/a/{id}"}, {"host", "*.example.com"}, {"host", "[::1]:8080"}, {"remote_address", "10.0.*"},
		{"remote_address", "2001:db8::1"}, {"user", `CORP\dave`}, {"user", "ann+shop@example.com"}, {"user", "auth0|5f7c"},
		{"user", "(anonymous)"}, {"agent", "Mozilla/5.0 (X11; Linux*"}, {"version", "1.*"}, {"day", "2026/11"}, {"ratio", "1/8"},
	} {
		if got := suspicion(t, e[0], e[1], Options{}); got != "" {
			t.Errorf("%s=%s: got the warning %q, want none", e[0], e[1], got)
		}
	}
}

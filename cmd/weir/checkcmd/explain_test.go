package checkcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const wholeLanguage = `domain: shop
descriptors:
  - key: user
    value: bot-*
    share_threshold: true
    shadow_mode: true
    quota_mode: true
    charge: always
    lease: false
    message: "Slow down.\n"
    metadata: {tier: <low>, more: [1, true]}
    detailed_metric: true
    rate_limits:
      - {requests_per_unit: 10, unit: minute, name: bot-minute, replaces: [{name: any-minute}, {name: gifts}]}
      - {requests_per_unit: 9, unit: week, unit_multiplier: 2, algorithm: fixed_window}
  - key: any
    rate_limit: {requests_per_unit: 5, unit: hour, name: any-minute, algorithm: sliding_log}
    descriptors:
      - {key: tenant, value_to_metric: true, rate_limit: {requests_per_unit: 1, unit: second, precision: 50ms}}
  - {key: gift, rate_limit: {unlimited: true, name: gifts}}
  - {key: team, quota_mode: true, rate_limit: {requests_per_unit: 5, unit: hour, algorithm: sliding_log}}
  - {key: trusted, value: "yes"}
`

func TestExplainShowsTheWholeRule(t *testing.T) {
	for d, want := range map[string]string{
		"user=bot-7": `
limit     10/minute  sliding_window of 1m, buckets of 1s, 1m, denied hits count too, name "bot-minute"
bound     none: in shadow mode nothing is denied; without it at most 10 in any 1m: the oldest bucket counts whole until all of it is out, so a hit may be denied up to 1s too early; denied hits count too, so that a caller who goes on asking may stay denied
limit     9/2week  fixed_window of 14d, denied hits count too
bound     none: in shadow mode nothing is denied; without it at most 18 in any 14d: 9 just before a multiple of 14d since 1970, and as many just after it, and nothing is denied too early but by a denied request of several hits, which uses up its window
key       "4:shop4:user5:bot-*"
failure   allow, by ON_BACKEND_FAILURE: while the store gives no answer, hits pass, uncounted
replaces  "any-minute", "gifts", where a request matches them as well
shadow    counted, never denied
quota     denied only when all quotas of a request are over
lease     false: each hit is asked of the store
message   "Slow down.\n"
metadata  {"more":[1,true],"tier":"<low>"}
history   each value apart: user=bot-*
`,
		"any=thing": `
limit    5/hour  sliding_log of 1h, exact to the microsecond, name "any-minute"
bound    at most 5 in any 1h: each hit counts for exactly the window, and nothing is denied too early
key      "4:shop3:any5:thing"
failure  allow, by ON_BACKEND_FAILURE: while the store gives no answer, hits pass, uncounted
`,
		"any=thing,tenant=a/b": `
limit    1/second  sliding_window of 1s, buckets of 50ms, 1s
bound    at most 1 in any 1s: the oldest bucket counts whole until all of it is out, so a hit may be denied up to 50ms too early
key      "4:shop3:any5:thing6:tenant3:a/b"
failure  allow, by ON_BACKEND_FAILURE: while the store gives no answer, hits pass, uncounted
history  each value apart: tenant=a/b
`,
		"team=red": `
limit    5/hour  sliding_log of 1h, exact to the microsecond
bound    none while another quota of the request has room; else at most 5 in any 1h: each hit counts for exactly the window, and nothing is denied too early
key      "4:shop4:team3:red"
failure  allow, by ON_BACKEND_FAILURE: while the store gives no answer, hits pass, uncounted
quota    denied only when all quotas of a request are over
`,
		"gift=1": `
limit  none: unlimited
`,
		"trusted=yes": "\nNo rule applies: trusted=yes (shop.yaml:22) has no limit, so it lets through what it matches.\n",
		"triste=yes":  "\nNo rule applies: in domain shop nothing fits triste=yes.\n",
	} {
		code, out, errs := runOn(t, wholeLanguage, Command{Path: "limits", Explain: []string{d}}, "")
		if code != 0 || !strings.HasSuffix("\n"+out, want) {
			t.Errorf("%s: exit code %d, %s\n%s\nwant this at the end:%s", d, code, errs, out, want)
		}
	}
}

func TestExplainAnswersForWholeRequests(t *testing.T) {
	const file = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 2, unit: minute, name: user-minute}
      - {requests_per_unit: 500, unit: hour, name: user-hour}
  - {key: team, quota_mode: true, rate_limit: {requests_per_unit: 9, unit: minute}}
  - {key: trial, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: minute}}
  - {key: path, rate_limit: {unlimited: true}}
  - {key: vip, rate_limit: {requests_per_unit: 7, unit: minute, replaces: [{name: user-minute}]}}
  - {key: gold, rate_limit: {requests_per_unit: 8, unit: minute, replaces: [{name: user-minute}, {name: user-hour}]}}
`
	for _, tc := range []struct {
		asked []string
		want  string
	}{
		{[]string{"user=ann", "path=/x"}, `
user=ann: denies when it is over: 2/minute user-minute, 500/hour user-hour
path=/x: never denies: unlimited; limits of others hold
charged: user=ann, each by itself, also where another denies or is unlimited
verdict: denied if over: user=ann; else OK. Envoy shows the limit with the least left
`},
		{[]string{"user=ann + vip=1", "team=red"}, `
user=ann: denies when it is over: 500/hour user-hour
vip=1: denies when it is over: 7/minute
team=red: denies when all quotas of the request are over: 9/minute
charged: user=ann, vip=1, team=red, each by itself, also where another denies or is unlimited
verdict: denied if over: user=ann, or vip=1, or all of team=red; else OK. Envoy shows the limit with the least left
`},
		{[]string{"user=a + b + gold=1 + trial=x"}, `
user=a + b: passes, uncounted: another descriptor replaces it
gold=1: denies when it is over: 8/minute
trial=x: never denies, in shadow mode: 1/minute
charged: gold=1, trial=x, each by itself, also where another denies or is unlimited
verdict: denied if over: gold=1; else OK. Envoy shows the limit with the least left
`},
		{[]string{"nobody=1 + path=/"}, `
nobody=1: passes, uncounted: no rule applies
path=/: never denies: unlimited; limits of others hold
charged: nothing
verdict: OK: nothing here denies
`},
	} {
		code, out, errs := runOn(t, file, Command{Path: "limits", Explain: tc.asked}, "")
		if code != 0 || !strings.HasSuffix(out, tc.want) || strings.Count(out, "domain shop (") != 1 {
			t.Errorf("%q: exit code %d, %s\n%s\nwant the domain once, and at the end%s", tc.asked, code, errs, out, tc.want)
		}
	}
	if _, out, _ := runOn(t, file, Command{Path: "limits", Explain: slices.Repeat([]string{"user=ann"}, 65)}, ""); !strings.HasSuffix(out,
		"\nverdict: too large, so nothing of it is counted; denied if a rule of its domain denies requests\n") {
		t.Errorf("of 65 descriptors:\n%s\nwant what weir serve does with so many", out)
	}
	_, out, _ := runOn(t, strings.Replace(file, "shop\n", "shop\nrefund_on_deny: true\n", 1), Command{Path: "limits", Explain: []string{"user=ann"}}, "")
	if !strings.Contains(out, "refund_on_deny: a denied request gives back") {
		t.Errorf("%s\nwant to be told of refund_on_deny", out)
	}
	code, out, _ := runOn(t, file, Command{Path: "limits", Explain: []string{"user=ann + team=red"}, Domain: "shpo"}, "")
	if code != 2 || strings.Count(out, "The configured ones are shop.") != 1 || strings.Contains(out, "user=ann: ") {
		t.Errorf("exit code %d\n%s\nwant 2, as the domain is unknown, told once", code, out)
	}
}

// What weir would serve can be explained while other files are wrong: that is when it is asked.
func TestExplainWorksBesideBadFiles(t *testing.T) {
	ann := []string{"user=ann"}
	for _, tc := range []struct {
		asked     []string
		domain    string
		code      int
		out, errs string
	}{
		{ann, "shop", 1, "limit    10/minute", "error: bar.yaml:2: domain bar: descriptors must be a list"},
		{[]string{"user=ann", "path=/"}, "bar", 1,
			"The files of domain bar have errors and never were good: its requests are answered UNAVAILABLE.\n", "error: bar.yaml:2: "},
		{ann, "", 2, "", "--explain needs --domain, one of shop, bar"},
		{ann, "baz", 2, "No file configures domain baz. The configured ones are shop.", "error: bar.yaml:2: "},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"shop.yaml": goodShop, "bar.yaml": "domain: bar\ndescriptors: 1\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		code, out, errs := runOn(t, "", Command{Path: dir, Explain: tc.asked, Domain: tc.domain}, "")
		if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.errs) || strings.Contains(out, "passes") {
			t.Errorf("%s: exit code %d, %s\n%s\nwant %d, %q and %q", tc.domain, code, errs, out, tc.code, tc.errs, tc.out)
		}
	}
}

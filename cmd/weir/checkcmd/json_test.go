package checkcmd

import (
	"strings"
	"testing"
)

// twiceWrong has an error and a warning.
const twiceWrong = `domain: "100%, a:b"
descriptors:
  - {key: user, value: "/pay", rate_limit: {unit: minuet, requests_per_unit: 1}}
  - {key: user, rate_limit: {unit: minute}}
`

func TestCheckPrintsOneJSONDocument(t *testing.T) {
	code, out, errs := runOn(t, twiceWrong+"  - {key: path, value: /pay, rate_limit: {unit: day, requests_per_unit: 1, unti: 1}}\n", Command{Path: "limits", JSON: true}, "")
	const wrong = `{"ok":false,"errors":2,"warnings":1,"problems":[` +
		`{"file":"limits/shop.yaml","line":3,"domain":"100%, a:b","path":"user=%2Fpay","rule":"user=/pay","severity":"error","text":"unit: \"minuet\" is not a unit: use one of second, minute, hour, day, week, month, year"},` +
		`{"file":"limits/shop.yaml","line":4,"domain":"100%, a:b","path":"user","rule":"user","severity":"warning","text":"requests_per_unit is missing: 0 blocks every request"},` +
		`{"file":"limits/shop.yaml","line":5,"domain":"100%, a:b","path":"path=%2Fpay","rule":"path=/pay","severity":"error","text":"unknown key \"unti\" in rate_limit: use one of requests_per_unit, unit, unit_multiplier, algorithm, precision, burst, name, replaces, unlimited"}],"domains":[]}` + "\n"
	if code != 1 || out != wrong || errs != "" {
		t.Errorf("exit code %d, %s\n%s\nwant 1 and\n%s", code, errs, out, wrong)
	}
	code, out, errs = runOn(t, wholeLanguage, Command{Path: "limits", JSON: true}, "")
	for _, want := range []string{
		`{"ok":true,"errors":0,"warnings":0,"problems":[],"domains":[{"domain":"shop","rules":[{"path":"user=bot-*","readable":"user=bot-*","file":"limits/shop.yaml","line":3,"limits":[{"limit":"10/minute","requests":10,"unit":"minute","multiplier":1,"algorithm":"sliding_window","window_seconds":60,"precision_seconds":1,"name":"bot-minute","charge":"always","most_in_any_window":null,"bound":"none: in shadow mode nothing is denied; without it at most 10 in any 1m: `,
		`{"limit":"9/2week","requests":9,"unit":"week","multiplier":2,"algorithm":"fixed_window","window_seconds":1209600,"charge":"always","most_in_any_window":null,"bound":"none: in shadow mode nothing is denied; without it at most 18 in any 14d: `,
		`which uses up its window"}],"unlimited":false,"shadow":true,"quota":true,"lease":false,"on_backend_failure":"allow","message":"Slow down.\n","metadata":{"more":[1,true],"tier":"<low>"},"replaces":["any-minute","gifts"]}`,
		`,"most_in_any_window":5,"bound":"at most 5 in any 1h: `,
		`{"path":"gift","readable":"gift","file":"limits/shop.yaml","line":20,"limits":[],"unlimited":true,"shadow":false,"quota":false,"name":"gifts",`,
		`"passes":[{"path":"trusted=yes","readable":"trusted=yes","file":"limits/shop.yaml","line":22}]}]}`,
	} {
		if code != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s\n%s\nlacks %s", code, errs, out, want)
		}
	}
	code, out, _ = runOn(t, "", Command{Path: "nowhere", JSON: true}, "")
	if code != 1 || !strings.HasPrefix(out, `{"ok":false,"errors":1,"warnings":0,"problems":[{"file":"nowhere","line":0,"severity":"error","text":"nowhere does not exist`) {
		t.Errorf("exit code %d\n%s\nwant 1, and a document all the same", code, out)
	}
}

func TestExplainPrintsJSON(t *testing.T) {
	for _, c := range []struct {
		file, descriptor, domain string
		code                     int
		want                     string
	}{
		{goodShop, "user=ann,path=/pay", "", 0, `"explanation":{"domain":"shop","descriptor":["user=ann","path=/pay"],"reason":"Rule user/path=/pay (shop.yaml:8) applies.","rule":{"path":"user/path=%2Fpay"`},
		{goodShop, "path=/", "shop", 0, `"rule":null}}`},
		{goodShop, "user=a + user=b", "shop", 0, `"request":["user=a: denies when it is over`},
		{goodShop, "path=/", "shpo", 2, "The configured ones are shop"},
		{"domain: shop\nx: y\n", "path=/", "", 1, `"reason":"` + nothingRight},
	} {
		code, out, errs := runOn(t, c.file, Command{Path: "limits", JSON: true, Explain: []string{c.descriptor}, Domain: c.domain}, "")
		if code != c.code || errs != "" || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d, %s\n%s\nwant %d, and %s", c.descriptor, code, errs, out, c.code, c.want)
		}
	}
}

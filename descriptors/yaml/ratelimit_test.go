package yaml

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// row is a file, and what becomes of it.
type row struct{ name, text, want string }

// under is a file with one descriptor of these fields, each on a line of its own from the fourth.
func under(fields ...string) string {
	return "domain: d\ndescriptors:\n- key: k\n  " + strings.Join(fields, "\n  ")
}

const aDay = "rate_limit: {unit: day, requests_per_unit: 5}"

// TestWhatRatelimitRejectsIsRejected has the faults for which envoyproxy/ratelimit refuses a file, but for those that
// TestEachBadFileIsToldItsFault and TestErrorsSayWhatIsWrongAndWhatWouldBeRight have already.
func TestWhatRatelimitRejectsIsRejected(t *testing.T) {
	for _, r := range []row{
		{"YAML syntax", "domain: d\n- x", "an item of a list stands here without a key above it"},
		{"wrong type", under("descriptors: 5"), "must be a list"},
		{"sexagesimal number", under("rate_limit: {unit: day, requests_per_unit: 1:30}"), "whole number"},
		{"octal 8", under("rate_limit: {unit: day, requests_per_unit: 08}"), "whole number"},
		{"fraction", under("rate_limit: {unit: day, requests_per_unit: 10.0}"), "whole number"},
		{"flag in mixed case", under("shadow_mode: oN", aDay), "shadow_mode must be true or false"},
		{"key that is a number", "domain: d\n1: x", `unknown key "1"`},
		{"empty item", "domain: d\ndescriptors:\n-\n", "a descriptor must be a mapping"},
		{"fraction as value", under("value: 1.5", aDay), "value is the number 1.5"},
		{"exponent as value", under("value: 1e3", aDay), "value is the number 1e3"},
		{"infinity as value", under("value: .inf", aDay), "value is the number .inf"},
		{"huge number as value", under("value: 18446744073709551615", aDay), "value is the number 1844"},
		{"fraction as domain", "domain: 1.5", "domain is the number 1.5"},
		{"replaces that is no list", under("rate_limit: {unit: day, requests_per_unit: 1, replaces: a}"), "replaces must be a list"},
		{"metadata with a number that JSON lacks", under("metadata: {a: .nan}", aDay), "metadata holds"},
		{"quoted quota_mode", under("quota_mode: 'yes'", aDay), "quota_mode must be true or false, without quotes"},
		{"unit unknown", under("rate_limit: {unit: unknown, requests_per_unit: 1}"), "is not a unit"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c, problems := Parse([]File{{"f", []byte(r.text)}}, Options{})
			if c != nil || !strings.Contains(fmt.Sprint(problems), r.want) {
				t.Errorf("got %v\nwant an error …%s…", problems, r.want)
			}
		})
	}
}

// TestWhatRatelimitTakesAlthoughItIsWrongIsWarnedOf has the files that envoyproxy/ratelimit loads without a word, but
// for those that TestEachBadFileIsToldItsFault has already.
func TestWhatRatelimitTakesAlthoughItIsWrongIsWarnedOf(t *testing.T) {
	for _, r := range []row{
		{"empty requests_per_unit", under("rate_limit: {unit: day, requests_per_unit: }"), "requests_per_unit is missing"},
		{"empty flag", under("shadow_mode:", aDay), "f:4: domain d, k: shadow_mode is empty, which means false"},
		{"shadow_mode in rate_limit", under("rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}"),
			`f:4: domain d, k: "shadow_mode" does not belong in rate_limit: it goes in a descriptor, beside its key, and is ignored here`},
		{"value in rate_limit", under("rate_limit: {unit: day, requests_per_unit: 1, value: v}"), `"value" does not belong`},
		{"unlimited in a descriptor", under("unlimited: true"), `"unlimited" does not belong in a descriptor`},
		{"domain in a descriptor", under("domain: e"), `it goes at the top of the file, and is ignored here`},
		{"key in the file", "domain: d\nkey: k", `f:2: domain d: "key" does not belong in the file`},
		{"unlimited and a number", under("rate_limit: {unlimited: true, requests_per_unit: 5}"),
			"requests_per_unit has no effect beside unlimited"},
		{"one name twice", under("rate_limit: {unit: day, requests_per_unit: 1, name: n}",
			"descriptors: [{key: l, rate_limit: {unlimited: true,", "  name: n}}]"),
			"f:6: domain d, k/l: the name n is already that of the limit at f:4"},
		{"quota_mode in rate_limit", under("rate_limit: {unit: day, requests_per_unit: 1, quota_mode: true}"),
			`"quota_mode" does not belong in rate_limit: it goes in a descriptor, beside its key, and is ignored here`},
		{"metadata in rate_limit", under("rate_limit: {unit: day, requests_per_unit: 1, metadata: {a: b}}"), `"metadata" does not belong`},
		{"replaces in a descriptor", under("replaces: [{name: a}]", aDay), `"replaces" does not belong in a descriptor: it goes inside rate_limit`},
		{"a second document that is no YAML", "domain: d\n---\n]\n", "what follows the first YAML document is ignored"},
		{"detailed_metric without a limit", under("detailed_metric: true"), "detailed_metric has no effect"},
		{"a composite that is a key", "domain: d\ndescriptors:\n- {key: a, value: b}\n- {key: a_b}",
			"f:4: domain d, a_b: envoyproxy/ratelimit takes this for the descriptor at f:3"},
		{"the domain given twice", "domain: c\ndomain: d", "f:2: domain d: domain is given twice"},
		{"<< behind what it changes", under("rate_limit: {unit: day, requests_per_unit: 1,", "  <<: {requests_per_unit: 2}}"),
			"f:5: domain d, k: requests_per_unit is given twice"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c, problems := Parse([]File{{"f", []byte(r.text)}}, Options{})
			if c == nil || len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].Error(), r.want) {
				t.Errorf("got %v\nwant one warning …%s…", problems, r.want)
			}
		})
	}
}

// TestWeirsKeysInTheWrongPlaceFail: a file that has them was written for weir, and means something.
func TestWeirsKeysInTheWrongPlaceFail(t *testing.T) {
	for key, text := range map[string]string{
		"precision": under("precision: 1s"), "message": under("rate_limit: {unit: day, requests_per_unit: 1, message: x}"),
		"algorithm": "domain: d\nalgorithm: fixed_window", "charge": "domain: d\ncharge: always",
		"shadow_mode":     "domain: d\ndescriptors: [{key: k, rate_limits: [{unit: day, requests_per_unit: 1, shadow_mode: true}]}]",
		"unit_multiplier": under("unit_multiplier: 2"), "rate_limits": "domain: d\nrate_limits: []",
	} {
		if c, problems := Parse([]File{{"f", []byte(text)}}, Options{}); c != nil || len(problems) != 1 ||
			!strings.Contains(problems[0].Text, `"`+key+`" does not belong in`) {
			t.Errorf("%s: got %v, want one error that says where it belongs", key, problems)
		}
	}
}

// TestYAMLIsReadAsRatelimitReadsIt compares with what gopkg.in/yaml.v2 makes of the same text.
func TestYAMLIsReadAsRatelimitReadsIt(t *testing.T) {
	for text, want := range map[string]uint64{
		"1_000": 1000, "010": 8, "0o10": 8, "0b11": 3, "0x1f": 31, "+5": 5, "2, requests_per_unit: 3": 3,
		"1, <<: {requests_per_unit: 2}": 2, "1, <<: [{requests_per_unit: 2}, {requests_per_unit: 3}]": 2,
	} {
		c := parseSuspect(t, under("rate_limit: {unit: day, requests_per_unit: "+text+"}"))
		if got := c.Rules()[0].Limits[0].Requests; got != want {
			t.Errorf("requests_per_unit: %s is %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"yes": true, "Yes": true, "on": true, "ON": true, "y": true, "Y": true, "TRUE": true, "True": true, "true": true,
		"no": false, "off": false, "n": false, "N": false, "False": false, "": false, "~": false,
	} {
		c := parseSuspect(t, under("shadow_mode: "+text, aDay))
		if got := c.Rules()[0].Shadow; got != want {
			t.Errorf("shadow_mode: %s is %v, want %v", text, got, want)
		}
	}
	c := parse(t, "\ufeff"+under("value: 2026-01-31", aDay))
	if m := c.Match("d", spelt("k=2026-01-31")); m.Found != descriptors.RuleFound {
		t.Errorf("a byte order mark is no part of the file, and a date is the text that is written; got %v", m)
	}
}

func TestAPatternsValuesShareOneCountIfAsked(t *testing.T) {
	c := parse(t, `
domain: d
descriptors:
  - key: path
    value: files/*
    share_threshold: true
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 5}
    descriptors:
      - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: path, value: "open/*", rate_limit: {unit: day, requests_per_unit: 5}}
  - {key: a*, share_threshold: yes, rate_limit: {unit: day, requests_per_unit: 5}}
`)
	key := func(d ...descriptors.Entry) string {
		m := c.Match("d", d)
		if m.Found != descriptors.RuleFound {
			t.Fatalf("%v has no rule", d)
		}
		return string(m.AppendKey(nil, "d", d))
	}
	for _, test := range []struct {
		a, b   descriptors.Descriptor
		shared bool
	}{
		{spelt("path=files/1"), spelt("path=files/2"), true},
		{spelt("path=files/1"), spelt("path=files/*"), true},
		{spelt("path=open/1"), spelt("path=open/2"), false},
		{spelt("path=files/1,user=u"), spelt("path=files/2,user=u"), true},
		{spelt("path=files/1,user=u"), spelt("path=files/2,user=v"), false},
		{spelt("path=files/1,user=u"), spelt("path=files/1"), false},
		{spelt("ab=1"), spelt("ab=2"), true},
		{spelt("ab=1"), spelt("ac=1"), false},
	} {
		if got := key(test.a...) == key(test.b...); got != test.shared {
			t.Errorf("%v and %v share a count: %v, want %v", test.a, test.b, got, test.shared)
		}
	}
	d := spelt("path=files/1")
	if got := string(c.Match("d", d).Rule.AppendValue(nil, d)); got != "path=files%2F*" {
		t.Errorf("the history has %s, want the pattern: its values are counted as one", got)
	}
}

package yaml

import (
	"slices"
	"strings"
	"testing"
)

// verdict is a file, and the one problem that it has, beside those of testdata/bad.
type verdict struct {
	name, text string
	line       int
	want       string // of the message
}

// under is a file with one descriptor of these fields, each on a line of its own from the fourth.
func under(fields ...string) string {
	return "domain: d\ndescriptors:\n- key: k\n  " + strings.Join(fields, "\n  ")
}

const aDay = "rate_limit: {unit: day, requests_per_unit: 5}"

// inLimit is a file whose fourth line is a rate_limit that goes wrong.
func inLimit(name, fields, want string) verdict {
	return verdict{name, under("rate_limit: {" + fields + "}"), 4, want}
}

// errorVerdicts are files that are refused, by envoyproxy/ratelimit too where they are not weir's own.
var errorVerdicts = []verdict{
	{"only a comment", "# nothing\n", 0, "no domain"},
	{"empty domain", "descriptors: []\ndomain: ''", 2, "no domain"},
	{"domain is a list", "descriptors: []\ndomain: [a]", 2, "domain must be a text, not a list"},
	{"fraction as domain", "domain: 1.5", 1, "domain is the number 1.5"},
	{"root is a list", "- domain: x", 1, "the file must be a mapping (key: value), not a list"},
	{"item without a key above it", "domain: d\n- x", 2, "an item of a list stands here without a key above it"},
	{"unknown anchor", "domain: *x", 1, "domain: *x is YAML's alias of &x, which nothing above it defines"},
	{"junk behind the document", "domain: d\n]", 2, "a ] closes what nothing opens"},
	{"key that is a number", "domain: d\n1: x", 2, `unknown key "1"`},
	{"key is a list", "domain: d\n[a]: b", 2, "a key in the file must be a word, not a list"},
	{"descriptors is a mapping", "domain: d\ndescriptors: {key: k}", 2, "descriptors must be a list, not a mapping"},
	{"merge of a text", "domain: d\n<<: x", 2, `<< must name a mapping, not "x"`},
	{"empty item", "domain: d\ndescriptors:\n-\n", 3, "a descriptor must be a mapping"},
	{"empty key", "domain: d\ndescriptors:\n- value: v\n  key: ''", 4, "a descriptor needs a key"},
	{"value is a list", under("value: [a, b]"), 4, "value must be a text, not a list"},
	{"fraction as value", under("value: 1.5", aDay), 4, "value is the number 1.5"},
	{"infinity as value", under("value: .inf", aDay), 4, "value is the number .inf"},
	{"huge number as value", under("value: 18446744073709551615", aDay), 4, "value is the number 1844"},
	{"long value", under("value: " + strings.Repeat("v", 4097)), 4, "value is 4097 bytes long: at most 4096 are allowed"},
	{"long path", "domain: d\ndescriptors:\n- " + strings.Repeat("{key: "+strings.Repeat("k", 4095)+", descriptors: [", 5) +
		strings.Repeat("]}", 5), 3, "the path is 20479 bytes long: at most 16384 are allowed, shorten its keys and values"},
	{"unknown key", under("ratelimit: {}"), 4,
		`unknown key "ratelimit" in a descriptor: use one of key, value, rate_limit, rate_limits, descriptors, ` +
			"shadow_mode, quota_mode, charge, on_backend_failure, lease, message, metadata, detailed_metric, value_to_metric, " +
			"share_threshold"},
	{"strange key", under(`"\e[2J": 1`), 4, `unknown key "\x1b[2J" in a descriptor`},
	{"empty replaces entry", under("rate_limit: {requests_per_unit: 1, unit: day,", "  replaces: [{name: ''}]}"), 5,
		"should not have an empty replaces entry"},
	inLimit("name that ends a header", `unit: day, requests_per_unit: 1, name: "a\r\nb: c"`,
		`name is "a\r\nb: c": use printable ASCII without " and \, as Envoy writes it into a header`),
	inLimit("name that ends a text in a header", `unlimited: true, name: 'a"b'`, `name is "a\"b"`),
	{"name of a list that escapes", under("rate_limits: [{requests_per_unit: 1, unit: day, name: 'a\\'}]"), 4, `name is "a\\"`},
	{"replaced name that is not ASCII", under("rate_limit: {requests_per_unit: 1, unit: day, replaces: [{name: é}]}"), 4, `name is "é"`},
	{"replaces that is no list", under("rate_limit: {unit: day, requests_per_unit: 1, replaces: a}"), 4, "replaces must be a list"},
	{"number that JSON does not have", under(aDay, "metadata: {a: [.inf]}"), 5, `metadata holds ".inf"`},
	{"key of metadata that is none", under(aDay, "metadata: {a: {[b]: c}}"), 5, "a key in metadata must be a word, not a list"},
	{"flag that is a text", under("detailed_metric: some"), 4, `detailed_metric must be true or false, not "some"`},
	{"flag in mixed case", under("shadow_mode: oN", aDay), 4, "shadow_mode must be true or false"},
	{"unknown charge", under("charge: never", aDay), 4, `charge: "never" is not a charge: use one of admitted, always`},
	{"no limits", under("rate_limits: []"), 4, "rate_limits is empty"},
	{"limits below rate_limit", under("rate_limit:", "- {unit: day}"), 5,
		"rate_limit must be a mapping (key: value), not a list: several limits stand in rate_limits"},
	{"unlimited in the list", under("rate_limits:", "- "+aDay[len("rate_limit: "):], "- {requests_per_unit: 1, unit: hour, unlimited: false}"), 6,
		`"unlimited" does not belong in an item of rate_limits: it goes in rate_limit: {unlimited: true}`},
	{"too many limits", under("rate_limits: [" + strings.Repeat("{}, ", 17) + "]"), 4, "rate_limits lists 17 limits: at most 16 are allowed"},
	inLimit("a unit with a number", "requests_per_unit: 1, unit: 5m", "year; how many of them is unit_multiplier"),
	inLimit("a fraction", "unit: day, requests_per_unit: 10.5", `not "10.5"`),
	inLimit("sexagesimal number", "unit: day, requests_per_unit: 1:30", "whole number"),
	inLimit("multiplier of 0", "unit: day, requests_per_unit: 1, unit_multiplier: 0",
		`unit_multiplier must be a whole number from 1 to 4294967295, not "0"`),
	inLimit("window too long", "unit: year, requests_per_unit: 1, unit_multiplier: 293", "longer than 292 years"),
	inLimit("precision of the window", "unit: day, requests_per_unit: 1, precision: 1d",
		"precision 1d must be below the window of 1d"),
	inLimit("precision too fine", "unit: day, requests_per_unit: 1, precision: 50ms",
		"precision 50ms is too fine for a window of 1d: at most 100000 buckets fit, so use 1s or coarser"),
	inLimit("burst of nothing", "unit: day, requests_per_unit: 0, burst: 5, algorithm: token_bucket",
		"burst has no meaning beside 0 requests, which block everything: leave it out"),
	inLimit("no burst at all", "unit: day, requests_per_unit: 1, burst: 0, algorithm: token_bucket",
		`burst must be a whole number from 1 to 4294967295, not "0"`),
	inLimit("unlimited and burst", "unlimited: true, burst: 5", "rate_limit should not specify burst when unlimited"),
	// A file that has weir's own keys in the wrong place was written for weir, and means something.
	{"precision in a descriptor", under("precision: 1s"), 4, `"precision" does not belong in`},
	{"algorithm in the file", "domain: d\nalgorithm: fixed_window", 2, `"algorithm" does not belong in`},
	{"flag in the list", under("rate_limits: [{unit: day, requests_per_unit: 1, shadow_mode: true}]"), 4, `"shadow_mode" does not belong in`},
	{"limits in the file", "domain: d\nrate_limits: []", 2, `"rate_limits" does not belong in`},
	inLimit("message in rate_limit", "unit: day, requests_per_unit: 1, message: x", `"message" does not belong in`),
}

// lostLimits are files in which something was meant as a limit and is none: errors, though envoyproxy/ratelimit takes them.
var lostLimits = []verdict{
	{"empty limit", under("rate_limit:"), 4, "rate_limit is empty, so that what matches passes uncounted: indent its keys below it"},
	{"limit by an alias of nothing", under("metadata: {a: &x }", "rate_limit: *x"), 5, "rate_limit is empty"},
	{"requests in a descriptor", under("requests_per_unit: 5"), 4,
		`"requests_per_unit" IS in a descriptor: it goes inside rate_limit`},
	{"unit beside a limit", under(aDay, "unit: hour"), 5, `"unit" IS in a descriptor: it goes inside rate_limit`},
	{"unlimited in a descriptor", under("unlimited: true"), 4, `"unlimited" IS in a descriptor: it goes in rate_limit: {unlimited: true}`},
	{"limit in the file", "domain: d\n" + aDay, 2, `"rate_limit" IS in the file: it goes in a descriptor, beside its key`},
	inLimit("limit in a limit", "unit: day, requests_per_unit: 5, "+aDay, `"rate_limit" IS in rate_limit: it goes in a descriptor`),
	inLimit("descriptors in a limit", "unit: day, requests_per_unit: 5, descriptors: [{key: l, "+aDay+"}]",
		`"descriptors" IS in rate_limit: it goes in a descriptor, beside its key`),
	{"limit twice", under(aDay, aDay), 5, "rate_limit is given twice, and that of line 4 is ignored: write rate_limits: for both"},
	{"limit before <<", under(aDay, "<<: {"+aDay+"}"), 5, "rate_limit is given twice, and that of line 4 is ignored"},
	{"descriptors twice", "domain: d\ndescriptors: [{key: k, " + aDay + "}]\ndescriptors: [{key: l, " + aDay + "}]", 3,
		"descriptors is given twice, and that of line 2 is ignored: write one list for both"},
	{"list twice", under("rate_limits: [{unit: day, requests_per_unit: 5}]", "rate_limits: [{unit: hour, requests_per_unit: 1}]"), 5,
		"rate_limits is given twice, and that of line 4 is ignored: write one list for both"},
	{"a lost -", under("rate_limits:", "- unit: day", "  requests_per_unit: 5", "  unit: hour"), 7,
		"unit is given twice, and that of line 5 is ignored: keep one, or put back the - of a list item"},
	{"key twice", under(aDay, "key: l"), 5, "key is given twice"},
	{"domain given twice", "domain: c\ndomain: d", 2, "domain is given twice"},
	{"<< behind what it changes", under("rate_limit: {unit: day, requests_per_unit: 1,", "  <<: {requests_per_unit: 2}}"), 5,
		"requests_per_unit is given twice"},
}

// A limit that is not in force must be seen at once; whoever comes from envoyproxy/ratelimit with such a file keeps what
// it did there.
func TestALimitThatIsNoneBreaksItsDomainUnlessRatelimitTakesIt(t *testing.T) {
	for _, v := range lostLimits {
		for _, asRatelimit := range []bool{false, true} {
			c, problems := judge([]File{file("f", v.text)}, Options{Lenient: asRatelimit})
			is := "does not belong"
			if asRatelimit {
				is = "is ignored"
			}
			want := strings.Replace(v.want, "IS", is, 1)
			if len(problems) != 1 || problems[0].Warning != asRatelimit || (c != nil) != asRatelimit || problems[0].Line != v.line ||
				problems[0].Domain != "d" || !strings.Contains(problems[0].Text, want) {
				t.Errorf("%s, as ratelimit: %t: a configuration: %t, and %v\nwant one problem at line %d, an error or, as ratelimit, "+
					"a warning: …%s…", v.name, asRatelimit, c != nil, problems, v.line, want)
			}
		}
	}
}

// One space before its domain cuts the rest of a file off.
func TestLimitsBehindTheFirstDocumentAreNone(t *testing.T) {
	rest := "descriptors: [{key: k, " + aDay + "}]\n"
	for text, line := range map[string]int{" domain: d\n" + rest: 2, "domain: d\n---\n" + rest: 3, "domain: d\n...\n" + rest: 3,
		"domain: d\n---\n]\n": 3, "domain: d\n---\n---\n" + rest: 4, "domain: d\n---\n# the end\n": 0} {
		for _, asRatelimit := range []bool{false, true} {
			_, problems := judge([]File{file("f", text)}, Options{Lenient: asRatelimit})
			if line == 0 && len(problems) == 0 {
				continue
			}
			if len(problems) != 1 || problems[0].Line != line || problems[0].Warning != asRatelimit ||
				!strings.Contains(problems[0].Text, "what follows the first YAML document is ignored") {
				t.Errorf("%q, as ratelimit: %t: %v\nwant one problem at line %d: what stands there limits nothing", text, asRatelimit, problems, line)
			}
		}
	}
}

// warningVerdicts are files that are taken, by envoyproxy/ratelimit without a word where they are not weir's own.
var warningVerdicts = []verdict{
	{"charge without a limit", under("charge: always"), 4, "charge has no effect on a descriptor without a rate_limit of its own"},
	{"value_to_metric beside one value", under("value: v", "value_to_metric: true", aDay), 5,
		"value_to_metric has no effect beside a value without *: there is only one"},
	{"detailed_metric without a limit", under("detailed_metric: true"), 4,
		"detailed_metric has no effect on a descriptor without a rate_limit of its own"},
	{"message of an unlimited rule", under("message: m", "rate_limit: {unlimited: true}"), 4, "message has no effect on an unlimited descriptor"},
	{"a log that charges always", under("charge: always", "rate_limit: {requests_per_unit: 1, unit: day, algorithm: sliding_log}"), 4,
		"a sliding_log that charges always keeps the instants of denied hits too, without a bound: " +
			"charge admitted, or use sliding_window"},
	inLimit("empty requests_per_unit", "unit: day, requests_per_unit: ", "requests_per_unit is missing"),
	{"empty flag", under("shadow_mode:", aDay), 4, "shadow_mode is empty, which means false"},
	inLimit("shadow_mode in rate_limit", "unit: day, requests_per_unit: 1, shadow_mode: true",
		`"shadow_mode" is ignored in rate_limit: it goes in a descriptor, beside its key`),
	{"domain in a descriptor", under("domain: e"), 4, `"domain" is ignored in a descriptor: it goes at the top of the file`},
	{"key in the file", "domain: d\nkey: k", 2, `"key" is ignored in the file`},
	inLimit("unlimited and a number", "unlimited: true, requests_per_unit: 5", "requests_per_unit has no effect beside unlimited"),
	{"replaces in a descriptor", under("replaces: [{name: a}]", aDay), 4,
		`"replaces" is ignored in a descriptor: it goes inside rate_limit`},
}

func TestEachFaultIsToldOnceAtItsLine(t *testing.T) {
	for i, v := range slices.Concat(errorVerdicts, warningVerdicts) {
		t.Run(v.name, func(t *testing.T) {
			warning := i >= len(errorVerdicts)
			c, problems := judge([]File{file("f", v.text)}, Options{})
			if (c != nil) != warning || len(problems) != 1 || problems[0].Warning != warning {
				t.Fatalf("got a configuration: %t, and\n%v\nwant one problem, a warning beside a configuration: %t", c != nil, problems, warning)
			}
			got := problems[0]
			if got.Line != v.line || !strings.Contains(got.Text, v.want) {
				t.Errorf("got  line %d: %s\nwant line %d: …%s…", got.Line, got.Text, v.line, v.want)
			}
			if v.line > 2 && got.Domain != "d" && strings.Contains(got.Text, "descriptor") {
				t.Errorf("the problem does not name its domain: %v", got)
			}
		})
	}
}

package yaml

import (
	"slices"
	"strings"
	"testing"
)

// TestErrorsSayWhatIsWrongAndWhatWouldBeRight gives the line and the text for what a file can get wrong beside the
// files of testdata/bad.
func TestErrorsSayWhatIsWrongAndWhatWouldBeRight(t *testing.T) {
	for _, test := range slices.Concat(fileErrors, descriptorErrors, limitErrors) {
		t.Run(test.name, func(t *testing.T) {
			c, problems := Parse([]File{{"f", []byte(test.text)}}, Options{})
			if c != nil {
				t.Error("a configuration with errors must not be put in force")
			}
			if len(problems) != 1 {
				t.Fatalf("got %d problems, want one, so that each mistake is told once:\n%v", len(problems), problems)
			}
			got := problems[0]
			if got.Line != test.line || !strings.Contains(got.Text, test.want) {
				t.Errorf("got  line %d: %s\nwant line %d: …%s…", got.Line, got.Text, test.line, test.want)
			}
			if strings.Contains(test.text, "domain: d") && test.line > 2 && got.Domain != "d" {
				t.Errorf("the problem does not name its domain: %v", got)
			}
		})
	}
}

type errorTest struct {
	name, text string
	line       int
	want       string
}

var fileErrors = []errorTest{
	{"only a comment", "# nothing\n", 0, "no domain"},
	{"only a separator", "---\n", 0, "no domain"},
	{"empty domain", "descriptors: []\ndomain: ''", 2, "no domain"},
	{"null domain", "descriptors: []\ndomain:", 2, "no domain"},
	{"domain is a list", "descriptors: []\ndomain: [a]", 2, "domain must be a text, not a list"},
	{"root is a list", "- domain: x", 1, "the file must be a mapping (key: value), not a list"},
	{"root is a text", "domain", 1, `the file must be a mapping (key: value), not "domain"`},
	{"unknown anchor", "domain: *x", 1, "domain: *x is YAML's alias of &x, which nothing above it defines"},
	{"control character", "domain: \x01", 1, "not valid YAML: control characters are not allowed"},
	{"junk behind the document", "domain: d\n]", 2, "a ] closes what nothing opens"},
	{"key is a list", "domain: d\n[a]: b", 2, "a key in the file must be a word, not a list"},
	{"descriptors is a mapping", "domain: d\ndescriptors: {key: k}", 2, "descriptors must be a list, not a mapping"},
	{"merge of a text", "domain: d\n<<: x", 2, `<< must name a mapping, not "x"`},
}

var descriptorErrors = []errorTest{
	{"empty key", "domain: d\ndescriptors:\n- value: v\n  key: ''", 4, "a descriptor needs a key"},
	{"null key", "domain: d\ndescriptors:\n- key:", 3, "a descriptor needs a key"},
	{"value is a list", "domain: d\ndescriptors:\n- key: k\n  value: [a, b]", 4, "value must be a text, not a list"},
	{"long key", "domain: d\ndescriptors:\n- key: k\n  value: " + strings.Repeat("v", 4097), 4,
		"value is 4097 bytes long: at most 4096 are allowed"},
	{"unknown key", "domain: d\ndescriptors:\n- key: k\n  ratelimit: {}", 4,
		`unknown key "ratelimit" in a descriptor: use one of key, value, rate_limit, rate_limits, descriptors, ` +
			"shadow_mode, quota_mode, charge, on_backend_failure, message, metadata, detailed_metric, value_to_metric, share_threshold (did you mean rate_limit?)"},
	{"strange key", "domain: d\ndescriptors:\n- key: k\n  \"\\e[2J\": 1", 4, `unknown key "\x1b[2J" in a descriptor`},
	{"an empty replaces entry", "domain: d\ndescriptors:\n- {key: k, rate_limit: {requests_per_unit: 1, unit: day,\n" +
		"  replaces: [{name: ''}]}}", 4, "should not have an empty replaces entry"},
	{"metadata is a text",
		"domain: d\ndescriptors:\n- {key: k, rate_limit: {requests_per_unit: 1, unit: day},\n  metadata: some}", 4,
		`metadata must be a mapping (key: value), not "some"`},
	{"a number that JSON does not have",
		"domain: d\ndescriptors:\n- {key: k, rate_limit: {requests_per_unit: 1, unit: day},\n  metadata: {a: [.inf]}}", 4,
		`metadata holds ".inf"`},
	{"a key of metadata that is none",
		"domain: d\ndescriptors:\n- {key: k, rate_limit: {requests_per_unit: 1, unit: day},\n  metadata: {a: {[b]: c}}}", 4,
		"a key in metadata must be a word, not a list"},
	{"detailed_metric is a text", "domain: d\ndescriptors:\n- key: k\n  detailed_metric: some", 4,
		`detailed_metric must be true or false, not "some"`},
	{"shadow_mode is a number", "domain: d\ndescriptors:\n- {key: k,\n  shadow_mode: 1, rate_limit: {unlimited: true}}", 4,
		`shadow_mode must be true or false, not "1"`},
	{"unknown charge", "domain: d\ndescriptors:\n- {key: k,\n  charge: never,\n  rate_limit: {requests_per_unit: 1, " +
		"unit: day}}", 4, `charge: "never" is not a charge: use one of admitted, always`},
	{"empty rate_limits", "domain: d\ndescriptors:\n- key: k\n  rate_limits: []", 4, "rate_limits is empty"},
	{"null rate_limits", "domain: d\ndescriptors:\n- key: k\n  rate_limits:", 4, "rate_limits must be a list, not empty"},
	{"a colon forgotten", "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit hour, unit: day, requests_per_unit: 1}", 4,
		`"unit hour" lacks a colon: write unit: hour`},
	{"same entry twice", "domain: d\ndescriptors:\n- {key: k, value: v}\n- {key: k}\n- {key: k, value: v}", 5,
		"the same key and value are already configured at f:3: keep one of the two"},
	{"same pattern twice", "domain: d\ndescriptors:\n- {key: k, value: v*}\n- {key: k, value: v*}", 4, "at f:3"},
	{"near miss", "domain: d\ndescriptors:\n- {key: k}\n- {key: l, descriptors: [\n  {key: m, valeu: v}]}", 5,
		"(did you mean value?)"},
}

var limitErrors = []errorTest{
	inLimit("a unit with a number", "requests_per_unit: 1, unit: 5m", "year; how many of them is unit_multiplier"),
	{"a list below rate_limit", "domain: d\ndescriptors:\n- key: k\n  rate_limit:\n  - {unit: day}", 5,
		"rate_limit must be a mapping (key: value), not a list: several limits stand in rate_limits"},
	inLimit("unknown unit", "requests_per_unit: 1, unit: fortnight", `unit: "fortnight" is not a unit: use one of second`),
	inLimit("far too large", "unit: day, requests_per_unit: 99999999999999999999", "must be a whole number"),
	inLimit("a fraction", "unit: day, requests_per_unit: 10.5", `not "10.5"`),
	inLimit("a text", "unit: day, requests_per_unit: ten", `not "ten"`),
	inLimit("a list", "unit: day, requests_per_unit: [1]", "not a list"),
	inLimit("multiplier of 0", "unit: day, requests_per_unit: 1, unit_multiplier: 0",
		`unit_multiplier must be a whole number from 1 to 4294967295, not "0"`),
	inLimit("window too long", "unit: year, requests_per_unit: 1, unit_multiplier: 293", "longer than 292 years"),
	inLimit("unknown algorithm", "unit: day, requests_per_unit: 1, algorithm: gcra",
		`algorithm: "gcra" is not an algorithm: use one of sliding_window, fixed_window, sliding_log, token_bucket`),
	inLimit("null algorithm", "unit: day, requests_per_unit: 1, algorithm: ", "is not an algorithm"),
	inLimit("precision is a number", "unit: day, requests_per_unit: 1, precision: 1", "is not a bucket width"),
	inLimit("precision of no days", "unit: day, requests_per_unit: 1, precision: 0d", "is not a bucket width"),
	inLimit("precision of the window", "unit: day, requests_per_unit: 1, precision: 1d",
		"precision 1d must be below the window of 1d"),
	inLimit("precision too fine", "unit: day, requests_per_unit: 1, precision: 50ms",
		"precision 50ms is too fine for a window of 1d: at most 100000 buckets fit, so use 1s or coarser"),
	inLimit("precision of a fixed window", "unit: day, requests_per_unit: 1, precision: 1h, algorithm: fixed_window",
		"precision has no meaning for fixed_window"),
	inLimit("precision of a log", "unit: day, requests_per_unit: 1, precision: 1s, algorithm: sliding_log",
		"precision has no meaning for sliding_log, which is exact to the microsecond: leave it out"),
	inLimit("precision of a bucket", "unit: day, requests_per_unit: 1, precision: 1s, algorithm: token_bucket",
		"precision has no meaning for token_bucket, which is exact to the microsecond: leave it out"),
	inLimit("burst of a window", "unit: day, requests_per_unit: 1, burst: 5, algorithm: sliding_window",
		"burst has no meaning for sliding_window: leave it out, or use token_bucket"),
	inLimit("burst of nothing", "unit: day, requests_per_unit: 0, burst: 5, algorithm: token_bucket",
		"burst has no meaning beside 0 requests, which block everything: leave it out"),
	inLimit("no burst at all", "unit: day, requests_per_unit: 1, burst: 0, algorithm: token_bucket",
		`burst must be a whole number from 1 to 4294967295, not "0"`),
	inLimit("unlimited and burst", "unlimited: true, burst: 5", "rate_limit should not specify burst when unlimited"),
	inLimit("unlimited and unit", "unit: day, unlimited: true", "rate_limit should not specify unit when unlimited"),
	inLimit("unlimited and precision", "unlimited: true, precision: 1h", "should not specify precision when unlimited"),
	inLimit("unlimited is a text", "unlimited: maybe, requests_per_unit: 1, unit: day",
		`unlimited must be true or false, not "maybe"`),
	{"unlimited in the list", "domain: d\ndescriptors:\n- key: k\n  rate_limits:\n" +
		"  - {requests_per_unit: 1, unit: day}\n  - {requests_per_unit: 1, unit: hour, unlimited: false}", 6,
		`"unlimited" does not belong in an item of rate_limits: it goes only in rate_limit`},
	{"item is a text", "domain: d\ndescriptors:\n- key: k\n  rate_limits:\n" +
		"  - {requests_per_unit: 1, unit: day}\n  - x", 6,
		"an item of rate_limits must be a mapping"},
	{"a log among others", "domain: d\ndescriptors:\n- key: k\n  rate_limits:\n  - {requests_per_unit: 5, unit: minute}\n" +
		"  - {requests_per_unit: 9, unit: hour, algorithm: sliding_log}\n  - {requests_per_unit: 99, unit: day}", 6,
		"5/minute is a sliding_window and 9/hour a sliding_log, but the limits of a rule are all sliding_log or none: " +
			"put the sliding_log in a rule of its own, or use sliding_window for all"},
	{"too many limits", "domain: d\ndescriptors:\n- key: k\n  rate_limits: [" + strings.Repeat("{}, ", 17) + "]", 4,
		"rate_limits lists 17 limits: at most 16 are allowed"},
}

// inLimit is a file whose fifth line is the one in which a rate_limit goes wrong.
func inLimit(name, fields, want string) errorTest {
	return errorTest{name, "domain: d\ndescriptors:\n- key: k\n  rate_limit:\n    {" + fields + "}", 5, want}
}

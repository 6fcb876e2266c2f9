package yaml

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// parse reads one file that must be right.
func parse(t testing.TB, text string) *descriptors.Config {
	t.Helper()
	c, problems := judge([]File{file("shop.yaml", text)}, Options{})
	if len(problems) > 0 {
		t.Fatalf("the file is right, but has problems:\n%v\n%s", problems, text)
	}
	return c
}

// file is a file of that name and text.
func file(name, text string) File { return File{Name: name, Data: []byte(text)} }

func (f File) String() string { return f.Name + ":\n" + string(f.Data) }

// judge reads files, all of them or none: there is no configuration beside an error.
func judge(files []File, o Options) (*descriptors.Config, Problems) {
	r := NewLastGood(o).Update(files, nil)
	if r.Problems.Err() != nil {
		return nil, r.Problems
	}
	return r.Config, r.Problems
}

// spelt is a descriptor that is written right: user=ann,path=/pay.
func spelt(text string) descriptors.Descriptor {
	d, err := descriptors.ParseDescriptor(text)
	if err != nil {
		panic(err)
	}
	return d
}

func TestParseReadsTheWholeGrammar(t *testing.T) {
	c := parse(t, `
domain: shop
descriptors:
  - key: user
    rate_limits:
      - {name: burst, requests_per_unit: 10, unit: minute}
      - {requests_per_unit: 500, unit: HOUR, algorithm: fixed_window}
      - {requests_per_unit: 9, unit: day, algorithm: token_bucket, burst: 2}
    descriptors:
      - key: path
        value: /pay
        charge: always
        shadow_mode: true
        quota_mode: true
        message: "slow down\n"
        on_backend_failure: local
        lease: false
        rate_limit: {requests_per_unit: 5, unit: second, unit_multiplier: 30, precision: 1s}
  - key: user
    value: monitor
  - key: path
    value: /static/*
    rate_limit: {unlimited: true, name: free}
`)
	want := []descriptors.Rule{
		{Domain: "shop", Path: "user", Where: "shop.yaml:4", Limits: []descriptors.Limit{
			{Requests: 10, Window: time.Minute, Precision: time.Second, Algorithm: descriptors.SlidingWindow,
				Unit: descriptors.Minute, Multiplier: 1, Name: "burst"},
			{Requests: 500, Window: time.Hour, Algorithm: descriptors.FixedWindow, Unit: descriptors.Hour, Multiplier: 1},
			{Requests: 9, Window: 24 * time.Hour, Algorithm: descriptors.TokenBucket, Unit: descriptors.Day, Multiplier: 1, Burst: 2},
		}},
		{
			Domain: "shop", Path: "user/path=%2Fpay", Where: "shop.yaml:10",
			Charge: descriptors.ChargeAlways, Shadow: true, Quota: true, Message: "slow down\n", OnFailure: descriptors.PolicyLocal, Lease: new(bool),
			Limits: []descriptors.Limit{{Requests: 5, Window: 30 * time.Second, Precision: time.Second,
				Algorithm: descriptors.SlidingWindow, Unit: descriptors.Second, Multiplier: 30}}, Number: 1,
		},
		{Domain: "shop", Path: "path=%2Fstatic%2F*", Where: "shop.yaml:21", Unlimited: true, Number: 2, Name: "free"},
	}
	if got := len(c.Rules()); got != len(want) {
		t.Fatalf("got %d rules, want %d: a descriptor without a limit is no rule", got, len(want))
	}
	for i, r := range c.Rules() {
		if !reflect.DeepEqual(*r, want[i]) {
			t.Errorf("rule %d:\n got %+v\nwant %+v", i, *r, want[i])
		}
	}
	if c.DomainCount() != 1 {
		t.Errorf("got %d domains, want 1", c.DomainCount())
	}
	if m := c.Match("shop", spelt("user=monitor")); m.Kind != descriptors.NoRule {
		t.Errorf("a descriptor without a limit lets through what it matches; got %v", m.Kind)
	}
}

// A byte order mark is no part of the file.
func TestScalarsAreReadAsWritten(t *testing.T) {
	for _, text := range []string{"404", "true", "010", "1_000", "007", "0x1F", "yes", "2026-01-31", "on", "=", "'1.5'"} {
		c := parse(t, "\ufeffdomain: 7\ndescriptors: [{key: "+text+", value: "+text+", rate_limit: {unlimited: on}}]")
		text = strings.Trim(text, "'")
		if m := c.Match("7", descriptors.Descriptor{{Key: text, Value: text}}); m.Kind != descriptors.RuleMatches {
			t.Errorf("key and value %s are not found under that text", text)
		}
	}
}

func TestAllProblemsOfAllFilesAreReported(t *testing.T) {
	files := []File{
		file("b.yaml", "domain: shop\ndescriptors:\n- key: user\n  rate_limit:\n    unti: minute\n"+
			"    requests_per_unit: -1\n"),
		file("c.yaml", "\n"),
		file("a.yaml", "domain: shop\ndescriptors:\n- key: user\n- key: user\n"),
	}
	c, problems := judge(files, Options{})
	if c != nil {
		t.Error("a configuration with errors must not be put in force")
	}
	want := []string{
		`a.yaml:4: domain shop, user: the same key and value are already configured at a.yaml:3: keep one, and put the descriptors of both below it`,
		`b.yaml:1: domain shop: this domain is already configured at a.yaml:1: keep a domain in one file, or set ` +
			`MERGE_DOMAIN_CONFIG=true`,
		`b.yaml:5: domain shop, user: unknown key "unti" in rate_limit: use one of requests_per_unit, unit, ` +
			`unit_multiplier, algorithm, precision, burst, name, replaces, unlimited`,
		`b.yaml:5: domain shop, user: unit is missing: use one of second, minute, hour, day, week, month, year`,
		`b.yaml:6: domain shop, user: requests_per_unit must be a whole number from 0 to 4294967295, not "-1"`,
		`c.yaml: no domain: the file is empty`,
	}
	if got := fmt.Sprint(problems.Err()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestMetadataIsReadAsJSON(t *testing.T) {
	c := parse(t, `
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 1, unit: day}
    metadata:
      <<: [{tier: silver, from: first}, {from: second, also: merged}]
      tier: gold
      unit: x
      7: number
      list: [1, 2.5, true, null, "true", 2026-11-21, {deep: 1_000}]
      empty: {}
      words: [yes, Off, n, 'yes', !!str on, !!bool 'on', 1:30, 010, 0o10, .5]
      also: mine
      <<: {also: theirs}
  - key: path
    rate_limit: {requests_per_unit: 1, unit: day}
    metadata:
`)
	want := map[string]any{
		"tier": "gold", "from": "first", "also": "theirs", "unit": "x", "7": "number",
		"list":  []any{1.0, 2.5, true, nil, "true", "2026-11-21", map[string]any{"deep": 1000.0}},
		"empty": map[string]any{},
		"words": []any{true, false, false, "yes", "on", true, "1:30", 8.0, 8.0, 0.5},
	}
	if got := c.Rules()[0].Metadata; !reflect.DeepEqual(got, want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
	if got := c.Rules()[1].Metadata; got != nil {
		t.Errorf("an empty metadata gives %v; want none", got)
	}
}

// Envoy Gateway writes every field of every level.
func TestFilesOfEnvoyGatewayLoad(t *testing.T) {
	const unset = "shadow_mode: false, quota_mode: false, detailed_metric: false, value_to_metric: false, share_threshold: false}"
	c, problems := judge([]File{file("eg", `name: ns/policy
domain: ns/policy
descriptors:
- {key: rule, value: rule, rate_limit: null, descriptors: [{key: user, value: "", rate_limit: {requests_per_unit: 5,
    unit: SECOND, unlimited: false, name: "", replaces: []}, descriptors: [], `+unset+"], "+unset)}, Options{})
	if c == nil || len(c.Rules()) != 1 || c.Rules()[0].Limits[0].Requests != 5 {
		t.Errorf("got %v; want its one rule, of 5/second, at most beside warnings", problems)
	}
}

func TestSurrogatePairIsOneCharacter(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud83d\uDE00"`:                             "😀",
		`"\\\ud83d\ude00\ud83d\ude01\u00e9"`:         `\😀😁é`,
		`"\\ud83d\\ude00"`:                           `\ud83d\ude00`,
		`'\ud83d\ude00'`:                             `\ud83d\ude00`,
		`"v", "metadata": {"smile": "\ud83d\ude00"}`: "v",
	} {
		c := parse(t, `{"domain": "d", "descriptors": [{"key": "k", "rate_limit": {"unit": "day", "requests_per_unit": 5}, "value": `+text+"}]}")
		if m := c.Match("d", descriptors.Descriptor{{Key: "k", Value: want}}); m.Kind != descriptors.RuleMatches {
			t.Errorf("%s is not read as %q", text, want)
		}
	}
	for _, text := range []string{`"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\\ude00"`} {
		c, problems := judge([]File{file("f", "domain: d\ndescriptors:\n- {key: k, value: "+text+"}")}, Options{})
		if c != nil || len(problems) != 1 || problems[0].Line != 3 {
			t.Errorf("%s gives %v, want one error in line 3: half a pair is no character", text, problems)
		}
	}
}

// Who shares a Redis with envoyproxy/ratelimit has to hear which limits are counted apart from it.
func TestRulesThatRatelimitCannotCountAreNamed(t *testing.T) {
	files := []File{file("shop.yaml", `domain: shop
descriptors:
  - {key: plain, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: double, rate_limit: {unit: minute, unit_multiplier: 2, requests_per_unit: 10}}
  - {key: rolling, rate_limit: {unit: minute, requests_per_unit: 10, algorithm: sliding_window}}
  - {key: spared, charge: admitted, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: both
    rate_limits: [{unit: minute, requests_per_unit: 10}, {unit: hour, requests_per_unit: 50}]
`)}
	for format, want := range map[descriptors.KeyFormat]string{
		descriptors.KeysOfRatelimit: "double rolling spared both ", descriptors.KeysOfWeir: ""} {
		c, problems := judge(files, Options{Algorithm: descriptors.FixedWindow, Keys: descriptors.Keys{Format: format}})
		named := ""
		for _, p := range problems {
			if p.Warning && strings.Contains(p.Text, "weir's own keys") {
				named += p.Path + " "
			}
		}
		if c == nil || named != want {
			t.Errorf("by the keys of %v got %v, want warnings that these have weir's own keys: %s", format, problems, want)
		}
	}
}

// A file must not be refused because of how weir was started, and its author must hear what is ignored.
func TestFieldsOfOtherAlgorithmsAreIgnored(t *testing.T) {
	const noPrecision = "precision has no effect: the limit counts by fixed_window, the value of ALGORITHM. " +
		"Give it algorithm: sliding_window, or leave precision out"
	const noBurst = "burst has no effect: the limit counts by sliding_log, the value of ALGORITHM. " +
		"Give it algorithm: token_bucket, or leave burst out"
	for _, test := range []struct {
		by        descriptors.Algorithm
		key, want string
	}{
		{descriptors.FixedWindow, "precision: 1m", noPrecision}, {descriptors.SlidingWindow, "precision: 1m", ""},
		{descriptors.SlidingLog, "burst: 9", noBurst}, {descriptors.TokenBucket, "burst: 9", ""},
	} {
		const plain = "unit: day, requests_per_unit: 5"
		byDefault := Options{Algorithm: test.by}
		c, problems := judge([]File{file("f", under("rate_limit: {"+plain+",\n   "+test.key+"}"))}, byDefault)
		want := ""
		if test.want != "" {
			want = "f:5: domain d, k: " + test.want
		}
		if c == nil || fmt.Sprint(problems) != "["+want+"]" {
			t.Fatalf("%s by %v: got %v, want a configuration and the warning %q", test.key, test.by, problems, want)
		}
		without, _ := judge([]File{file("f", under("rate_limit: {"+plain+"}"))}, byDefault)
		limit := without.Rules()[0].Limits[0]
		if limit.Algorithm != test.by || want != "" && limit != c.Rules()[0].Limits[0] {
			t.Errorf("%s by %v: got %+v, want by that algorithm the limit %+v", test.key, test.by, c.Rules()[0].Limits[0], limit)
		}
	}
}

// Whoever swaps the image or sets ALGORITHM starts with these files, or with the second, which a reader makes of the first.
func TestShippedLimitsLoadUnderEachAlgorithm(t *testing.T) {
	shipped := append(read(t, "../../k8s/base/config/shop.yaml"), read(t, "../../helm/weir/files/shop.yaml")...)
	for _, f := range shipped {
		without := strings.ReplaceAll(string(f.Data), "      algorithm: sliding_window\n", "")
		if without == string(f.Data) {
			t.Fatal("the example names no algorithm: this test proves nothing")
		}
		for _, a := range descriptors.Algorithms() {
			for _, format := range []descriptors.KeyFormat{descriptors.KeysOfWeir, descriptors.KeysOfRatelimit} {
				for _, f := range []File{f, file("without", without)} {
					c, problems := judge([]File{f}, Options{Algorithm: a, Keys: descriptors.Keys{Format: format}})
					if c == nil || len(c.Rules()) == 0 {
						t.Errorf("by %s, keys of %s: got %v, want the rules of\n%v", a, format, problems, f)
					}
				}
			}
		}
	}
}

// under is a file with one descriptor of these fields, each on a line of its own from the fourth.
func under(fields ...string) string {
	return "domain: d\ndescriptors:\n- key: k\n  " + strings.Join(fields, "\n  ")
}

const aDay = "rate_limit: {unit: day, requests_per_unit: 5}"

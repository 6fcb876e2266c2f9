package yaml

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// maxFuzzed is how long a fuzzed file may be, in bytes; TestHostileFilesAreRefused has longer ones.
const maxFuzzed = 16 << 10

// everyFeature are files with all that the language has.
var everyFeature = []string{
	"domain: d\ndescriptors: &d\n- {key: k, value: a*, rate_limit: &r {unlimited: true}}\n- {key: l, <<: {rate_limit: *r}}",
	"domain: d\ndescriptors:\n- key: a\n  descriptors: [{key: b/c=%, value: x/y, rate_limit: {unit: day}}]",
	`domain: d
descriptors:
- {key: a*, value: "*b*c", share_threshold: true, descriptors: [{key: "*", share_threshold: yes, value_to_metric: on}]}
- {key: k, value: "", charge: always, quota_mode: y, shadow_mode: True, rate_limit: {unlimited: true, name: free}}
- key: k
  value: 0x1F
  charge: admitted
  message: "\t\u2028\x7f"
  detailed_metric: true
  metadata: {<<: [{a: 1, b: 2}, {b: 3}], yes: [~, -0.0, 1e300, 0b11, .5, true, 2026-01-31, "", {}, []], "<<": "null"}
  rate_limits:
  - {requests_per_unit: 010, unit: second, unit_multiplier: 86400, precision: 1s, name: a, replaces: [{name: b}]}
  - {requests_per_unit: 4294967295, unit: year, algorithm: fixed_window, replaces: [{name: free}, {name: b}]}
  - {requests_per_unit: 0, unit: MONTH, precision: 1d, name: c}
- {key: k, value: k, rate_limit: {requests_per_unit: 1, unit: week, algorithm: sliding_log, name: b}}
- {key: k, value: t, rate_limit: {requests_per_unit: 7, unit: hour, algorithm: token_bucket, burst: 3, name: t}}
- key: k
  value: u
  rate_limits:
  - {requests_per_unit: 9, unit: minute, algorithm: token_bucket}
  - {requests_per_unit: 0, unit: day, algorithm: token_bucket}
  - {requests_per_unit: 5, unit: year, algorithm: token_bucket, burst: 4294967295}
`,
}

// shownFiles are the descriptor files in FORMAT.md, some without their first two lines.
var shownFiles = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func FuzzParse(f *testing.F) {
	for _, v := range slices.Concat(errorVerdicts, warningVerdicts) {
		f.Add([]byte(v.text))
	}
	for _, text := range everyFeature {
		f.Add([]byte(text))
	}
	format, err := os.ReadFile(filepath.Join("..", "FORMAT.md"))
	shown := shownFiles.FindAllSubmatch(format, -1)
	if len(shown) == 0 {
		f.Fatalf("FORMAT.md has no descriptor file: %v", err)
	}
	for _, file := range shown {
		f.Add(file[1])
		f.Add(append([]byte("domain: shop\ndescriptors:\n"), file[1]...))
	}
	for _, pattern := range []string{"../../k8s/base/config/*", "../testdata/*.yaml", "testdata/bad/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("there are no files %s: %v", pattern, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) <= maxFuzzed {
			checkFile(t, data)
		}
	})
}

// checkFile fails unless a file has errors, or rules that apply to what they spell, also as a change of another file.
func checkFile(t *testing.T, data []byte) {
	r := NewLastGood(Options{}).Update([]File{{Name: "f", Data: data}}, nil)
	if (r.Config == nil) != (r.Problems.Err() != nil) {
		t.Fatalf("a config must come with no error, and no config with one; got %v, %v", r.Config, r.Problems)
	}
	for _, p := range r.Problems {
		if s := p.Error(); len(s) > 2000 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) {
			t.Errorf("a problem must be one line and short: %q", s)
		}
	}
	if r.Config != nil {
		tree := r.LastGood.domains[r.Config.DomainNames()[0]].domain
		checkSpelt(t, r.Config, tree, &tree.Root, nil)
	}
}

// checkSpelt fails unless each rule below n applies to the descriptor that its keys and values spell. A rule without a
// value is asked for an empty one, unless a pattern beside it takes that.
func checkSpelt(t *testing.T, c *descriptors.Config, tree *descriptors.Domain, n *descriptors.Node, above descriptors.Descriptor) {
	t.Helper()
	var patterns []descriptors.Entry
	for e, child := range n.Children() {
		if isStarred(e) {
			patterns = append(patterns, e)
		} else if e.Value == "" && slices.ContainsFunc(patterns, func(p descriptors.Entry) bool { return fitsByDefinition(p, e) }) {
			continue
		}
		d := append(slices.Clip(above), e)
		if m := c.Match(tree.Name, d); m.Rule != child.Rule || (m.Found == descriptors.RuleFound) != (child.Rule != nil) {
			t.Fatalf("%v spells the keys and values of what stands at %s, but matches %+v", d, child.Where, m)
		}
		checkSpelt(t, c, tree, child, d)
	}
}

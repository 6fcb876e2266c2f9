package yaml

import (
	"fmt"
	"strings"
	"testing"
)

// TestHostileFilesAreRefused feeds what makes a careless reader run out of memory, stack or time, beside two good
// files.
func TestHostileFilesAreRefused(t *testing.T) {
	const head = "domain: d\ndescriptors:\n"
	bomb := head + "- key: k0\n  descriptors: &l0 [{key: a, rate_limit: {unlimited: true}}, {key: b}, {key: c}]\n"
	for i := 1; i < 40; i++ {
		bomb += fmt.Sprintf("- key: k%d\n  descriptors: &l%d [", i, i)
		for _, k := range "abcd" {
			bomb += fmt.Sprintf("{key: %c, descriptors: *l%d}, ", k, i-1)
		}
		bomb += "]\n"
	}
	fan := head + "- key: k\n  descriptors: &x\n"
	for i := range 200 {
		fan += fmt.Sprintf("  - {key: %s%d, rate_limit: {unlimited: true}}\n", strings.Repeat("k", 4000), i)
	}
	for i := range 200 {
		fan += fmt.Sprintf("- {key: k%d, descriptors: *x}\n", i)
	}
	merges := "x: &m0 {a: b}\n"
	for i := 1; i < 30; i++ {
		merges += fmt.Sprintf("y%d: &m%d {<<: [%s]}\n", i, i, strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 9))
	}
	deep := strings.Repeat("{key: k, descriptors: [", 101) + strings.Repeat("]}", 101)
	tests := []struct{ name, text, want string }{
		{"alias bomb", bomb, "too much configuration: with its YAML aliases followed it takes over 64 MiB"},
		{"wide aliases of long keys", fan, "too much configuration"},
		{"merge bomb", merges + "<<: *m29\n" + head, "too much configuration"},
		{"list that holds itself", "domain: d\ndescriptors: &d [{key: k, descriptors: *d}]", "nest deeper than 100 levels"},
		{"descriptor that holds itself", head + "- &d {key: k, descriptors: [*d]}", "nest deeper than 100 levels"},
		{"merge that holds itself", "&m\n<<: *m\n" + head, "merges nest deeper than 100 levels"},
		{"nested descriptors", head + "- " + deep, "nest deeper than 100 levels"},
		{"nested lists", "descriptors: " + strings.Repeat("[", 999_000), "not valid YAML: exceeded max depth"},
		{"many nodes", head + "- [" + strings.Repeat("[],", 2_000_000), "more than 1000000 lines, commas, brackets and list items"},
		{"a huge number", head + "- {key: k, rate_limit: {unit: day, requests_per_unit: " + strings.Repeat("9", 1<<20) + "}}",
			"requests_per_unit must be a whole number"},
		{"a huge unit", head + "- {key: k, rate_limit: {requests_per_unit: 1, unit: " + strings.Repeat("u", 1<<20) + "}}",
			"unit is 1048576 bytes long: at most 4096 are allowed"},
		{"a huge unknown key", head + "- {key: k, \"" + strings.Repeat("u", 1000) + "\": 1}", "unknown key"},
		{"a huge message", head + "- {key: k, message: " + strings.Repeat("m", 65537) + ", rate_limit: {unlimited: true}}",
			"message is 65537 bytes long: at most 65536 are allowed"},
		{"many mistakes", head + strings.Repeat("- {k: v}\n", 20_000), "and 39000 more problems"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := []File{file("a", limited("a", 1)), file("f", test.text), file("c", limited("c", 1))}
			r := NewLastGood(Options{}).Update(files, nil)
			var all strings.Builder
			for _, p := range r.Problems {
				all.WriteString(p.Error() + "\n")
			}
			if !strings.Contains(all.String(), test.want) || all.Len() > 1<<20 {
				t.Errorf("got %.2000s\nwant …%s…", all.String(), test.want)
			}
			if r.Config == nil || inForce(r) != "a=1 c=1" {
				t.Errorf("in force is %v: a file that is too much must break its own domain only", r.Config)
			}
		})
	}
}

func TestManyWarningsHideNoErrors(t *testing.T) {
	text := "domain: d\ndescriptors:\n" + strings.Repeat("- {key: k, shadow_mode: true}\n", 3000)
	_, problems := judge([]File{file("f", text)}, Options{})
	if err := problems.Err(); err == nil || strings.Count(err.Error(), "already configured") != 1000 {
		t.Errorf("want the first 1000 errors, beside 1000 warnings; got %.200v", err)
	}
	if last := problems[len(problems)-1]; last.Text != "and 3999 more problems" || !last.Warning {
		t.Errorf("the last problem must say how many are not told; got %v", last)
	}
}

func TestManyPatternsWithOnePrefixAreWarned(t *testing.T) {
	list := func(format string, from, to int) string {
		text := ""
		for i := from; i < to; i++ {
			text += "  - {key: path, value: " + strings.ReplaceAll(format, "N", fmt.Sprint(i)) + "}\n"
		}
		return text
	}
	const head, below = "domain: d\ndescriptors:\n- key: user\n  descriptors:\n", " patterns here, because they begin alike"
	for _, test := range []struct{ name, text, want string }{
		{"300", head + list(`"*botN*"`, 0, 300), ""},
		{"301", head + list(`"*botN*"`, 0, 301), "f:4: domain d, user: a value is compared with up to 301" + below},
		{"nested heads", head + nestedHeads(301), "f:4: domain d, user: a value is compared with up to 301" + below},
		{"with text before the *", head + list(`"/xN*"`, 0, 900), ""},
		{"below the same text", head + list(`"/x*N"`, 0, 302), "f:4: domain d, user: a value is compared with up to 302" + below},
		{"on several levels", head + list(`"*xN*"`, 0, 290) + "- key: user\n  value: ann\n  descriptors:\n" + list(`"*xN*"`, 0, 290), ""},
	} {
		_, problems := judge([]File{file("f", test.text)}, Options{})
		if test.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || !problems[0].Warning || test.want == "" || !strings.HasPrefix(problems[0].Error(), test.want) {
			t.Errorf("%s: got %v, want the warning %q, and none for \"\"", test.name, problems, test.want)
		}
	}
	files := []File{file("f", "domain: d\ndescriptors:\n"+list(`"*xN*"`, 0, 200)), file("g", "domain: d\ndescriptors:\n"+list(`"*xN*"`, 200, 400)),
		file("h", "domain: d\ndescriptors: [{key: k}]")}
	_, problems := judge(files, Options{Merge: true})
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), "g:2: domain d: a value is compared with up to 400 ") {
		t.Errorf("got %v, want one warning, in the file that makes them too many", problems)
	}
}

// nestedHeads are patterns that each begin with the ones before.
func nestedHeads(n int) (text string) {
	for i := range n {
		text += "  - {key: path, value: \"" + strings.Repeat("a", i) + "*b*\"}\n"
	}
	return text
}

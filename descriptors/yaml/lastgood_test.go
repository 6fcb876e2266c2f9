package yaml

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// limited is a file whose domain allows requests with key k so many times a day.
func limited(domain string, requests int) string {
	return fmt.Sprintf("domain: %s\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: %d}}\n", domain, requests)
}

// wrong is a file that is YAML, but has an error.
func wrong(domain string) string { return "domain: " + domain + "\nunknown: key\n" }

// holdStep is what files are at one moment, and what must be in force then.
type holdStep struct {
	files      map[string]string
	unreadable []string
	want       string // "a=1 b=broken (kept a)"; "as before" if nothing is to be put in force
}

type texts = map[string]string

var holdSteps = map[string][]holdStep{
	"a bad domain keeps its last good form, others change": {
		{texts{"a": limited("a", 1), "b": limited("b", 1)}, nil, "a=1 b=1"},
		{texts{"a": wrong("a"), "b": limited("b", 2)}, nil, "a=1 b=2 (kept a)"},
		{texts{"a": limited("a", 3), "b": limited("b", 2)}, nil, "a=3 b=2"},
	},
	"a file that does not parse keeps the domain of its last content": {
		{texts{"a": limited("a", 1), "b": limited("b", 1)}, nil, "a=1 b=1"},
		{texts{"a": "][", "b": limited("b", 2)}, nil, "a=1 b=2 (kept a)"},
		{texts{"a": "", "b": limited("b", 3)}, nil, "a=1 b=3 (kept a)"},
		{texts{"b": limited("b", 3)}, nil, "b=3"},
	},
	"a domain that never was good is broken, not unknown": {
		{texts{"a": wrong("a"), "b": limited("b", 1)}, nil, "a=broken b=1"},
		{texts{"a": limited("a", 2), "b": limited("b", 1)}, nil, "a=2 b=1"},
	},
	"so is one whose file is not even YAML, if a line names it": {
		{texts{"a": "# why\ndomain: 'a' # x\n  - ]", "b": limited("b", 1)}, nil, "a=broken b=1"},
		{texts{"a": "][", "b": limited("b", 2)}, nil, "a=broken b=2"},
	},
	"a file that says nothing of a domain breaks none": {
		{texts{"a": "  domain: a\n  - ]", "b": limited("b", 1)}, nil, "b=1"},
	},
	"with nothing good ever, nothing is put in force": {
		{texts{"a": wrong("a")}, nil, "as before"},
		{texts{"a": limited("a", 1)}, nil, "a=1"},
	},
	"a domain in two files is bad in both": {
		{texts{"a": limited("a", 1), "c": limited("c", 1)}, nil, "a=1 c=1"},
		{texts{"a": limited("a", 2), "b": limited("a", 3), "c": limited("c", 2)}, nil, "a=1 c=2 (kept a)"},
		{texts{"b": limited("a", 3), "c": limited("c", 2)}, nil, "a=3 c=2"},
	},
	"a domain in two files from the start is broken": {
		{texts{"a": limited("a", 2), "b": limited("a", 3), "c": limited("c", 2)}, nil, "a=broken c=2"},
	},
	"a deleted file takes its domain with it, even among bad ones": {
		{texts{"a": limited("a", 1), "b": limited("b", 1), "c": limited("c", 1)}, nil, "a=1 b=1 c=1"},
		{texts{"b": wrong("b"), "c": limited("c", 1)}, nil, "b=1 c=1 (kept b)"},
		{texts{"c": limited("c", 2)}, nil, "c=2"},
	},
	"a renamed file that breaks belongs to no domain that is known": {
		{texts{"a": limited("a", 1), "b": limited("b", 1)}, nil, "a=1 b=1"},
		{texts{"a2": "][", "b": limited("b", 1)}, nil, "b=1"},
	},
	"a file that names another domain keeps the one that it leaves until it is good": {
		{texts{"a": limited("a", 1)}, nil, "a=1"},
		{texts{"a": wrong("z")}, nil, "a=1 z=broken (kept a)"},
		{texts{"a": wrong("c")}, nil, "a=1 c=broken (kept a)"},
		{texts{"a": limited("c", 1)}, nil, "c=1"},
	},
	"a file that becomes a copy of another one": {
		{texts{"a": limited("a", 1), "b": limited("b", 1)}, nil, "a=1 b=1"},
		{texts{"a": limited("b", 1), "b": limited("b", 1)}, nil, "as before"},
		{texts{"a": limited("b", 1)}, nil, "b=1"},
	},
	"a domain that moves to another file may leave": {
		{texts{"a": limited("a", 1)}, nil, "a=1"},
		{texts{"a": wrong("z"), "b": limited("a", 2)}, nil, "a=2 z=broken"},
	},
	"unreadable files and directories keep their domains": {
		{texts{"a": limited("a", 1), "d/b": limited("b", 1), "d2": limited("c", 1)}, nil, "a=1 b=1 c=1"},
		{texts{"d2": limited("c", 2)}, []string{"a", "d"}, "a=1 b=1 c=2 (kept a b)"},
		{texts{}, []string{"."}, "as before"},
		{texts{"d2": limited("c", 2)}, nil, "c=2"},
	},
	"no domains are a configuration too": {
		{texts{}, nil, ""},
		{texts{"a": wrong("a")}, nil, "a=broken"},
		{texts{}, nil, ""},
	},
	"the same error told again changes nothing": {
		{texts{"a": limited("a", 1), "b": limited("b", 1)}, nil, "a=1 b=1"},
		{texts{"a": wrong("a"), "b": limited("b", 1)}, nil, "as before"},
		{texts{"a": wrong("a") + "more: x\n", "b": limited("b", 1)}, nil, "as before"},
	},
}

func TestABadFileBreaksNoMoreThanItsDomain(t *testing.T) {
	for name, steps := range holdSteps {
		t.Run(name, func(t *testing.T) { runHoldSteps(t, steps, Options{}) })
	}
}

func TestTheDomainOfAFileThatIsNoYAMLIsFound(t *testing.T) {
	for text, want := range map[string]string{
		"domain: a\n  - ]":             "a",
		"domain : a\n  - ]":            "a",
		"\"domain\": a\n  - ]":         "a",
		"domain: \"a b\" # why\n- ]":   "a b",
		"domain: a\r\n  - ]":           "a",
		"domain: a\ndomain: b\n  - ]":  "b",
		"  domain: a\n  - ]":           "",
		"descriptors:\n- {domain: a\n": "",
		"domain: >-\n a\n]":            "",
		"domain: [a]\n]":               "",
		"domains: a\n]":                "",
		"domain:a\n- ]":                "",
		"":                             "",
	} {
		if got := domainLine([]byte(text)); got != want {
			t.Errorf("%q seems to be of domain %q, want %q: its requests pass if nobody knows", text, got, want)
		}
	}
}

func TestAnUpdateTellsWhichDomainsSuffer(t *testing.T) {
	good := []File{file("a", limited("a", 1)), file("d/b", limited("b", 1))}
	first := NewLastGood(Options{}).Update(append(good, file("x", "]")), []string{"y"})
	kept := first.LastGood.Update(good[:1], []string{"d"})
	never := first.LastGood.Update([]File{file("a", wrong("a")), good[1], file("c", wrong("c\\x"))}, nil)
	for want, r := range map[string]Update{
		"unknown, and let pass unless another file has it, is that of: x, y":                           first,
		"keep their last good form: b":                                                                 kept,
		`keep their last good form: a; never had a good form, so that requests cannot be decided: c\x`: never,
	} {
		if r.consequences() != want {
			t.Errorf("told %q, want %q", r.consequences(), want)
		}
	}
	if x := never.Config.Explain("c\\x", descriptors.Descriptor{{Key: "k"}}); !strings.Contains(x.Reason, "have errors and never were good") {
		t.Errorf("a broken domain must not be explained as an unknown one: %s", x.Reason)
	}
}

func TestAMergedDomainIsGoodOrBadAsAWhole(t *testing.T) {
	more := "domain: a\ndescriptors:\n- {key: l}\n"
	runHoldSteps(t, []holdStep{
		{texts{"a": limited("a", 1), "b": more, "c": limited("c", 1)}, nil, "a=1 c=1"},
		{texts{"a": limited("a", 2), "b": "][", "c": limited("c", 2)}, nil, "a=1 c=2 (kept a)"},
		{texts{"a": limited("a", 3), "b": limited("a", 4), "c": limited("c", 3)}, nil, "a=1 c=3 (kept a)"},
		{texts{"a": limited("a", 3), "c": limited("c", 3)}, nil, "a=3 c=3"},
		{texts{"b": more, "c": limited("c", 3)}, nil, "a=empty c=3"},
	}, Options{Merge: true})
}

func runHoldSteps(t *testing.T, steps []holdStep, o Options) {
	t.Helper()
	held := NewLastGood(o)
	for i, step := range steps {
		var files []File
		for _, name := range slices.Sorted(maps.Keys(step.files)) {
			files = append(files, File{Name: name, Data: []byte(step.files[name])})
		}
		r := held.Update(files, step.unreadable)
		got := "as before"
		if r.Config != nil {
			got = inForce(r)
			held = r.LastGood
			checkForms(t, r, o)
		}
		if got != step.want {
			t.Fatalf("step %d: got %s, want %s\n%v", i+1, got, step.want, r.Problems)
		}
	}
}

// checkForms fails unless an update gives what the files of its forms alone give, to the last line number.
func checkForms(t *testing.T, r Update, o Options) {
	t.Helper()
	var files []File
	for _, domain := range r.LastGood.domains {
		for _, f := range domain.files {
			files = append(files, f.File)
		}
	}
	alone := NewLastGood(o).Update(files, nil)
	if err := alone.Problems.Err(); err != nil {
		t.Fatalf("the good forms have errors: %v", err)
	}
	alone.LastGood.broken = r.LastGood.broken
	alone.LastGood.build(&alone)
	if !reflect.DeepEqual(r.Config, alone.Config) {
		t.Fatalf("the configuration is\n%s\nwant that of its files alone\n%s", allOf(r), allOf(alone))
	}
}

// allOf writes all that an update has put in force.
func allOf(r Update) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Config.BrokenNames(), r.Config.Passes())
	for _, rule := range r.Config.Rules() {
		fmt.Fprintf(&b, "%+v\n", *rule)
	}
	return b.String()
}

// inForce shows the domains of an update with the limit of their key k.
func inForce(r Update) string {
	var parts []string
	for _, domain := range strings.Split("a b c z", " ") {
		switch m := r.Config.Match(domain, descriptors.Descriptor{{Key: "k", Value: "v"}}); m.Found {
		case descriptors.RuleFound:
			parts = append(parts, fmt.Sprintf("%s=%d", domain, m.Rule.Limits[0].Requests))
		case descriptors.BrokenDomain:
			parts = append(parts, domain+"=broken")
		case descriptors.NoRule:
			parts = append(parts, domain+"=empty")
		}
	}
	if len(r.Kept) > 0 {
		parts = append(parts, "(kept "+strings.Join(r.Kept, " ")+")")
	}
	return strings.Join(parts, " ")
}

// large is a file that unfolds to 30 MiB: of three, the third is too much.
func large(domain string) string {
	text := "domain: " + domain + "\ndescriptors:\n"
	m := "&m {a: " + strings.Repeat("a", 64<<10) + "}"
	for i := range 480 {
		text += fmt.Sprintf("- {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}, metadata: %s}\n", i, m)
		m = "*m"
	}
	return text
}

func TestFilesAreTooMuchTogether(t *testing.T) {
	a, b, c := file("a", large("a")), file("b", large("b")), file("c", large("c"))
	first := (&LastGood{}).Update([]File{a, b}, nil)
	if first.Config == nil {
		t.Fatalf("two large files must not be too much: %v", first.Problems)
	}
	for _, test := range []struct {
		name  string
		files []File
		want  string
	}{
		{"a third after those that have not changed", []File{a, b, c}, "c:3: domain c: too much configuration"},
		{"a third before them", []File{{Name: "0", Data: c.Data}, a, b}, "b:3: domain b: too much configuration"},
		{"a third beside one that is kept", []File{a, file("b", wrong("b")), c},
			"too much configuration: beside the last good form of b it takes over 64 MiB"},
	} {
		got := first.LastGood.Update(test.files, nil)
		if !slices.ContainsFunc(got.Problems, func(p Problem) bool {
			return strings.HasPrefix(p.Error(), test.want) && !p.Warning
		}) {
			t.Errorf("%s: got %.500v, want …%s…", test.name, got.Problems, test.want)
		}
	}
}

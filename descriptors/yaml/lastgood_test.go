package yaml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
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

// forms are what a file may hold of a domain, beside a limit of so many a day.
var forms = map[string]string{
	"!":  wrong("%s"),
	"!!": wrong("%s") + "more: x\n",
	"]":  "# why\ndomain: '%s' # x\n  - ]",         // no YAML, but a line names the domain
	"+":  "domain: %s\ndescriptors:\n- {key: l}\n", // nothing about key k
}

// moment returns the files of one line of testdata/lastgood.txt, as name:text, where the text of a1 is
// that of limited("a", 1).
func moment(line string) (files []File, unread Problems) {
	for word := range strings.FieldsSeq(line) {
		name, text, _ := strings.Cut(word, ":")
		switch text {
		case "?":
			unread = append(unread, Problem{File: name})
			continue
		case "", "]":
		default:
			domain, form := text[:1], text[1:]
			if requests, err := strconv.Atoi(form); err == nil {
				text = limited(domain, requests)
			} else {
				text = fmt.Sprintf(forms[form], domain)
			}
		}
		files = append(files, file(name, text))
	}
	return files, unread
}

// In testdata/lastgood.txt a line is what files are at one moment, and what must be in force then.
func TestBadFileBreaksOnlyItsDomain(t *testing.T) {
	for block := range strings.SplitSeq(string(read(t, "testdata/lastgood.txt")[0].Data), "\n\n") {
		name, steps, _ := strings.Cut(block, "\n")
		t.Run(name, func(t *testing.T) {
			o := Options{Merge: strings.HasPrefix(name, "merged, ")}
			held := NewLastGood(o)
			for step := range strings.Lines(steps) {
				files, want, _ := strings.Cut(strings.TrimSpace(step), "→")
				r := held.Update(moment(files))
				got := "as before"
				if r.Config != nil {
					got = inForce(r)
					held = r.LastGood
					checkForms(t, r, o)
				}
				if got != strings.TrimSpace(want) {
					t.Fatalf("%sgot %s\n%v", step, got, r.Problems)
				}
			}
		})
	}
}

func TestDomainOfInvalidYAMLIsFound(t *testing.T) {
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

func TestUpdateNamesTheAffectedDomains(t *testing.T) {
	good := []File{file("a", limited("a", 1)), file("d/b", limited("b", 1))}
	first := NewLastGood(Options{}).Update(append(good, file("x", "]")), Problems{{File: "y"}, {File: "z", Warning: true}})
	kept := first.LastGood.Update(good[:1], Problems{{File: "d"}})
	never := first.LastGood.Update([]File{file("a", wrong("a")), good[1], file("c", wrong("c\\x"))}, nil)
	for want, r := range map[string]Update{
		"are files of an unknown domain, whose requests are admitted unless another file has it: x, y": first,
		"keep their last valid version: b": kept,
		`keep their last valid version: a; never had a valid version, so that requests cannot be decided: c\x`: never,
	} {
		if r.consequences() != want {
			t.Errorf("told %q, want %q", r.consequences(), want)
		}
	}
	if x := never.Config.Explain("c\\x", descriptors.Descriptor{{Key: "k"}}); !strings.Contains(x.Reason, "have errors and never were good") {
		t.Errorf("a broken domain must not be explained as an unknown one: %s", x.Reason)
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
		t.Fatalf("the valid versions have errors: %v", err)
	}
	alone.LastGood.broken = r.LastGood.broken
	alone.LastGood.build(&alone)
	if !reflect.DeepEqual(r.Config, alone.Config) {
		t.Fatalf("the configuration is not that of its files alone: %v", r.Config.Changes(alone.Config))
	}
}

// inForce shows the domains of an update with the limit of their key k.
func inForce(r Update) string {
	var parts []string
	for _, domain := range strings.Split("a b c z", " ") {
		switch m := r.Config.Match(domain, descriptors.Descriptor{{Key: "k", Value: "v"}}); m.Kind {
		case descriptors.RuleMatches:
			parts = append(parts, fmt.Sprintf("%s=%d", domain, m.Rule.Limits[0].Requests))
		case descriptors.BrokenDomain:
			parts = append(parts, domain+"=broken")
		case descriptors.NoRule:
			parts = append(parts, domain+"=empty")
		}
	}
	if len(r.Restored) > 0 {
		parts = append(parts, "(kept "+strings.Join(r.Restored, " ")+")")
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

func TestUpdateBoundsAllFilesTogether(t *testing.T) {
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
			"too much configuration: beside the last valid version of b it takes over 64 MiB"},
	} {
		got := first.LastGood.Update(test.files, nil)
		if !slices.ContainsFunc(got.Problems, func(p Problem) bool {
			return strings.HasPrefix(p.Error(), test.want) && !p.Warning
		}) {
			t.Errorf("%s: got %.500v, want …%s…", test.name, got.Problems, test.want)
		}
	}
}

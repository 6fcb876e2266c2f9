package descriptors

import (
	"strings"
	"testing"
)

func TestMatchTakesExactThenPatternThenKey(t *testing.T) {
	c := parseSuspect(t, `
domain: shop
descriptors:
  - {key: user, rate_limit: {unlimited: true}, descriptors: [{key: path, rate_limit: {unlimited: true}}]}
  - {key: user, value: ann, rate_limit: {unlimited: true}}
  - {key: user, value: a*, rate_limit: {unlimited: true}}
  - {key: user, value: "*n", descriptors: [{key: path, value: /pay, rate_limit: {unlimited: true}}]}
  - {key: user, value: root}
  - {key: h*, rate_limit: {unlimited: true}}
  - {key: host, rate_limit: {unlimited: true}}
  - {key: h*, value: x, rate_limit: {unlimited: true}}
  - {key: a_b, value: c, rate_limit: {unlimited: true}}
`)
	const none = ""
	tests := []struct {
		name string
		d    Descriptor
		want string
	}{
		{"exact value", Descriptor{{"user", "ann"}}, "user=ann"},
		{"first pattern that fits", Descriptor{{"user", "allen"}}, "user=a*"},
		{"a star is any text or none", Descriptor{{"user", "a"}}, "user=a*"},
		{"key alone", Descriptor{{"user", "bob"}}, "user"},
		{"an empty value", Descriptor{{"user", ""}}, "user"},
		{"whitelisted value", Descriptor{{"user", "root"}}, none},
		{"level without a limit", Descriptor{{"user", "dan"}}, none},
		{"below a pattern", Descriptor{{"user", "dan"}, {"path", "/pay"}}, "user=*n/path=/pay"},
		{"below a key alone", Descriptor{{"user", "bob"}, {"path", "/"}}, "user/path"},
		{"no way back from an exact value", Descriptor{{"user", "ann"}, {"path", "/"}}, none},
		{"no way back from a pattern", Descriptor{{"user", "dan"}, {"path", "/"}}, none},
		{"deeper than the tree", Descriptor{{"user", "bob"}, {"path", "/"}, {"x", "y"}}, none},
		{"the text of a pattern is exact", Descriptor{{"user", "*n"}}, none},
		{"pattern in the key", Descriptor{{"header", "1"}}, "h*"},
		{"pattern in the key goes before a key alone", Descriptor{{"host", "1"}}, "h*"},
		{"an earlier pattern hides a later one", Descriptor{{"hx", "x"}}, "h*"},
		{"unknown key", Descriptor{{"path", "/pay"}}, none},
		{"key and value are compared apart", Descriptor{{"a", "b_c"}}, none},
		{"underscores have no meaning", Descriptor{{"a_b", "c"}}, "a_b=c"},
		{"no entries", nil, none},
		{"upper case", Descriptor{{"User", "ann"}}, none},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := c.Match("shop", test.d)
			got := none
			if m.Found == RuleFound {
				got = ReadablePath(m.Rule.Path)
			}
			if got != test.want || (m.Rule != nil) != (m.Found == RuleFound) || m.Found == UnknownDomain {
				t.Errorf("%v: got rule %q (%+v), want %q", test.d, got, m, test.want)
			}
			if m := c.Match("other", test.d); m.Found != UnknownDomain || m.Rule != nil {
				t.Errorf("an unknown domain gives %+v", m)
			}
		})
	}
	if m := new(Config).Match("shop", Descriptor{{"user", "ann"}}); m.Found != UnknownDomain {
		t.Errorf("the zero Config knows a domain: %+v", m)
	}
}

func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"*", "anything", true}, {"**", "", true},
		{"a*", "a", true}, {"a*", "ab", true}, {"a*", "ba", false},
		{"*a", "a", true}, {"*a", "ba", true}, {"*a", "ab", false}, {"*a", "aa", true},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"a*a", "aba", true},
		{"*ab*ab*", "ab", false}, {"*ab*ab*", "abab", true}, {"*aba*aba", "ababa", false},
		{"a*b*c", "axxbxxbxxc", true}, {"a*b*c", "acb", false},
		{"/static/*", "/static/", true}, {"/static/*", "/static/css/a.css", true}, {"/static/*", "/static", false},
		{"[a]?", "[a]?", true}, {"?", "a", false}, {"é*", "été", true}, {"*\x00*", "a\x00b", true},
	}
	for _, test := range tests {
		if got := glob(test.pattern, test.s); got != test.want {
			t.Errorf("glob(%q, %q) is %v, want %v", test.pattern, test.s, got, test.want)
		}
	}
}

func TestGlobTakesNoTimeOnHostileText(t *testing.T) {
	// A backtracking matcher needs longer than the universe has for this.
	if glob(strings.Repeat("a*", 50)+"b", strings.Repeat("a", 100_000)) {
		t.Error("there is no b")
	}
}

// globByDefinition is glob, slow and obviously right.
func globByDefinition(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return globByDefinition(pattern[1:], s) || (s != "" && globByDefinition(pattern, s[1:]))
	}
	return s != "" && s[0] == pattern[0] && globByDefinition(pattern[1:], s[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "axb")
	f.Add("*ab*ab*", "aabab")
	f.Add("**", "\xff")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		pattern, s = pattern[:min(len(pattern), 8)], s[:min(len(s), 16)]
		if got, want := glob(pattern, s), globByDefinition(pattern, s); got != want {
			t.Errorf("glob(%q, %q) is %v, want %v", pattern, s, got, want)
		}
	})
}

func TestMatchAllocatesNothing(t *testing.T) {
	c := parseSuspect(t, string(manyRules(100)))
	for _, d := range []Descriptor{{{"user", "u7"}}, {{"user", "nobody"}}, {{"user", "u7"}, {"path", "/"}}, nil} {
		if n := testing.AllocsPerRun(1000, func() { c.Match("shop", d) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0: every request is matched", d, n)
		}
	}
}

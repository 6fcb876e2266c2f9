package descriptors

import (
	"fmt"
	"math/rand/v2"
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

// spec is a configured descriptor of a random tree, kept as a plain list to be matched by definition.
type spec struct {
	key, value string
	limited    bool
	path       string
	below      []*spec
}

// choices are taken from fuzzed bytes, so that each input spells one tree.
type choices []byte

func (c *choices) next(n int) int {
	if len(*c) == 0 {
		return 0
	}
	v := int((*c)[0]) % n
	*c = (*c)[1:]
	return v
}

// specs builds a level and those below it. No key and value is there twice.
func (c *choices) specs(path string, depth int) (level []*spec) {
	keys := []string{"a", "b", "a_b", "a*", "*", "*b"}
	values := []string{"", "x", "y", "x*", "*y", "*", "x_y", "*x*"}
	seen := make(map[Entry]bool)
	for range c.next(6) {
		s := &spec{key: keys[c.next(len(keys))], value: values[c.next(len(values))], limited: c.next(3) > 0}
		if seen[Entry{s.key, s.value}] {
			continue
		}
		seen[Entry{s.key, s.value}] = true
		s.path = joinPath(path, PathSegment(s.key, s.value))
		if depth < 3 {
			s.below = c.specs(s.path, depth+1)
		}
		level = append(level, s)
	}
	return level
}

func (c *choices) descriptor() (d Descriptor) {
	keys := []string{"a", "b", "a_b", "a*", "ab", "*"}
	values := []string{"", "x", "y", "xy", "x_y", "x*", "*", "zxz"}
	for range c.next(5) {
		d = append(d, Entry{keys[c.next(len(keys))], values[c.next(len(values))]})
	}
	return d
}

// yamlOf writes a level as a file has it.
func yamlOf(level []*spec) string {
	var b strings.Builder
	b.WriteString("[")
	for _, s := range level {
		fmt.Fprintf(&b, "{key: %q, value: %q, ", s.key, s.value)
		if s.limited {
			b.WriteString("rate_limit: {unlimited: true}, ")
		}
		fmt.Fprintf(&b, "descriptors: %s}, ", yamlOf(s.below))
	}
	b.WriteString("]")
	return b.String()
}

// matchByDefinition is Match, slow and obviously right. It gives the rule's path, "" if there is none.
func matchByDefinition(level []*spec, d Descriptor) string {
	if len(d) == 0 {
		return ""
	}
	starred := func(s *spec) bool { return strings.Contains(s.key+s.value, "*") }
	order := []func(s *spec) bool{
		func(s *spec) bool { return s.key == d[0].Key && s.value == d[0].Value && (s.value != "" || starred(s)) },
		func(s *spec) bool {
			return starred(s) && globByDefinition(s.key, d[0].Key) && (s.value == "" || globByDefinition(s.value, d[0].Value))
		},
		func(s *spec) bool { return s.key == d[0].Key && s.value == "" && !starred(s) },
	}
	for _, fits := range order {
		for _, s := range level {
			switch {
			case !fits(s):
			case len(d) > 1:
				return matchByDefinition(s.below, d[1:])
			case s.limited:
				return s.path
			default:
				return ""
			}
		}
	}
	return ""
}

// checkMatch fails unless Match agrees with the definition, and Explain with Match, on the tree and the descriptors
// that data spells.
func checkMatch(t *testing.T, data []byte) (found int) {
	t.Helper()
	choose := choices(data)
	level := choose.specs("", 1)
	c := parseSuspect(t, "domain: d\ndescriptors: "+yamlOf(level))
	for range 20 {
		d := choose.descriptor()
		m := c.Match("d", d)
		got := ""
		if m.Found == RuleFound {
			got = m.Rule.Path
			found++
		}
		if want := matchByDefinition(level, d); got != want || m.Found == UnknownDomain {
			t.Fatalf("%v: got rule %q (%+v), want %q in\n%s", d, got, m, want, yamlOf(level))
		}
		checkExplanation(t, c, "d", d)
	}
	return found
}

func TestMatchAgreesWithItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 300 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		found += checkMatch(t, data)
	}
	if found < 300 {
		t.Errorf("only %d descriptors found a rule: the trees are not worth matching", found)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("\x05abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) { checkMatch(t, data[:min(len(data), 1000)]) })
}

func TestMatchAllocatesNothing(t *testing.T) {
	c := parseSuspect(t, string(manyRules(100)))
	for _, d := range []Descriptor{{{"user", "u7"}}, {{"user", "nobody"}}, {{"user", "u7"}, {"path", "/"}}, nil} {
		if n := testing.AllocsPerRun(1000, func() { c.Match("shop", d) }); n != 0 {
			t.Errorf("%v: %v allocations, want 0: every request is matched", d, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, rules := range []int{1, 10_000} {
		c := parse(b, string(manyRules(rules)))
		known := Descriptor{{"user", fmt.Sprintf("u%d", rules/2)}}
		for name, d := range map[string]Descriptor{"known": known, "unknown": {{"user", "nobody"}}} {
			b.Run(fmt.Sprintf("%d/%s", rules, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.Match("shop", d)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	file := File{"shop.yaml", manyRules(10_000)}
	b.SetBytes(int64(len(file.Data)))
	b.ReportAllocs()
	for b.Loop() {
		Parse([]File{file}, Options{})
	}
}

package yaml

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

// spec is a configured descriptor of a random tree, kept in a plain list to be matched by definition.
type spec struct {
	key, value             string
	limit                  string // of YAML; "" for none
	shared, apart, details bool   // share_threshold, value_to_metric, detailed_metric
	message                string // tells its rule from all others
	below                  []*spec
}

func (s *spec) entry() descriptors.Entry { return descriptors.Entry{Key: s.key, Value: s.value} }

func (s *spec) starred() bool { return isStarred(s.entry()) }

func isStarred(e descriptors.Entry) bool { return strings.Contains(e.Key+e.Value, "*") }

// specFile is a file of such descriptors.
type specFile struct {
	name, domain string
	level        []*spec
}

// choices are taken from fuzzed bytes, so that each input spells one configuration.
type choices []byte

func (c *choices) next(n int) int {
	if len(*c) == 0 {
		return 0
	}
	v := int((*c)[0]) % n
	*c = (*c)[1:]
	return v
}

func (c *choices) of(texts ...string) string { return texts[c.next(len(texts))] }

// files builds up to three files, in the order of their names.
func (c *choices) files() (files []specFile) {
	count := 0
	for i := range 1 + c.next(3) {
		files = append(files, specFile{
			name: fmt.Sprintf("file%d", i), domain: c.of("d", "d", "e/="), level: c.specs(&count, 1),
		})
	}
	return files
}

// specs builds a level and those below it. No key and value is there twice.
func (c *choices) specs(count *int, depth int) (level []*spec) {
	seen := make(map[descriptors.Entry]bool)
	for range c.next(6) {
		s := &spec{
			key:   c.of("a", "b", "a_b", "a*", "*", "*b", "a*b", "/=%"),
			value: c.of("", "x", "y", "x*", "*y", "*", "x_y", "*x*", "x*x", "/=%,", "*/*", "xy*", "x_y*z*"),
			limit: c.of("", "{unlimited: true}", "{requests_per_unit: 1, unit: day}", "{requests_per_unit: 2, unit: hour}"),
		}
		flags := c.next(8)
		s.shared, s.apart, s.details = flags&1 > 0 && s.starred(), flags&2 > 0, flags&4 > 0
		if seen[s.entry()] {
			continue
		}
		seen[s.entry()] = true
		*count++
		s.message = fmt.Sprint("rule ", *count)
		if depth < 3 {
			s.below = c.specs(count, depth+1)
		}
		level = append(level, s)
	}
	return level
}

// descriptor goes down a tree, most often by entries that one of its descriptors could have been written for.
func (c *choices) descriptor(level []*spec) (d descriptors.Descriptor) {
	for range c.next(5) {
		e := descriptors.Entry{Key: c.of("a", "b", "a_b", "a*", "ab", "*")}
		e.Value = c.of("", "x", "y", "xy", "x_y", "x_yz", "xyx", "x*", "*", "zxz", ",", "\n")
		if len(level) > 0 && c.next(8) > 0 {
			i := c.next(len(level))
			e.Key = strings.ReplaceAll(level[i].key, "*", c.of("", "z", "b", "*"))
			if level[i].value != "" {
				e.Value = strings.ReplaceAll(level[i].value, "*", c.of("", "y", "/%", "*"))
			}
			level = level[i].below
		}
		d = append(d, e)
	}
	return d
}

// yamlOf writes a level as a file has it.
func yamlOf(level []*spec) string {
	var b strings.Builder
	b.WriteString("[")
	for _, s := range level {
		fmt.Fprintf(&b, "{key: %q, value: %q, value_to_metric: %t, detailed_metric: %t, message: %s, ", s.key, s.value,
			s.apart, s.details, s.message)
		if s.shared {
			b.WriteString("share_threshold: true, ")
		}
		if s.limit != "" {
			fmt.Fprintf(&b, "rate_limit: %s, ", s.limit)
		}
		fmt.Fprintf(&b, "descriptors: %s},\n", yamlOf(s.below))
	}
	b.WriteString("]")
	return b.String()
}

// domainsByDefinition are the descriptors of each domain. It says false if the files cannot stand beside each other.
func domainsByDefinition(files []specFile, merge bool) (map[string][]*spec, bool) {
	domains := make(map[string][]*spec)
	for _, f := range files {
		level, taken := domains[f.domain]
		for _, s := range f.level {
			if slices.ContainsFunc(level, func(o *spec) bool { return o.key == s.key && o.value == s.value }) {
				return nil, false
			}
		}
		if taken && !merge {
			return nil, false
		}
		domains[f.domain] = slices.Concat(level, f.level)
	}
	return domains, true
}

// matchByDefinition is Match, slow and obviously right. It gives the descriptors that d's entries lead to, one for
// each; fewer if they lead nowhere.
func matchByDefinition(level []*spec, d descriptors.Descriptor) []*spec {
	if len(d) == 0 {
		return nil
	}
	order := []func(s *spec) bool{
		func(s *spec) bool {
			return s.key == d[0].Key && s.value == d[0].Value && (s.value != "" || s.starred())
		},
		func(s *spec) bool {
			return s.starred() && fitsByDefinition(s.entry(), d[0])
		},
		func(s *spec) bool { return s.key == d[0].Key && s.value == "" && !s.starred() },
	}
	for _, fits := range order {
		for _, s := range level {
			if fits(s) {
				return append([]*spec{s}, matchByDefinition(s.below, d[1:])...)
			}
		}
	}
	return nil
}

// countedByDefinition is d with the values that it counts under, and what the history tells it apart by.
func countedByDefinition(steps []*spec, d descriptors.Descriptor) (counted descriptors.Descriptor, apart string) {
	var told []string
	for i, s := range steps {
		e := d[i]
		switch {
		case s.shared && s.value == "":
			e.Value = "*"
		case s.shared:
			e.Value = s.value
		}
		counted = append(counted, e)
		several := s.value == "" || strings.Contains(s.value, "*")
		if steps[len(steps)-1].details || s.apart && several {
			told = append(told, percentEscaped(e.Key)+"="+percentEscaped(e.Value))
		}
	}
	return counted, strings.Join(told, ",")
}

// percentEscaped escapes what separates the parts of a text of values, and what breaks a line.
func percentEscaped(s string) string {
	escaped := func(c string) string { return fmt.Sprintf("%%%02X", c[0]) }
	return regexp.MustCompile(`[%/=,\x00-\x1f\x7f]`).ReplaceAllStringFunc(s, escaped)
}

// checkMatch fails unless Match, the keys and what the history tells apart agree with the definition, and Explain with
// Match, on the configuration and the descriptors that data spells. It gives how many descriptors found a rule.
func checkMatch(t *testing.T, data []byte) (found int) {
	t.Helper()
	choose := choices(data)
	o := Options{Merge: choose.next(4) > 0, Keys: descriptors.Keys{Prefix: choose.of("", "p", "1:d")}}
	specs := choose.files()
	var files []File
	for _, f := range specs {
		files = slices.Insert(files, choose.next(len(files)+1),
			file(f.name, fmt.Sprintf("domain: %q\ndescriptors: %s", f.domain, yamlOf(f.level))))
	}
	c, problems := judge(files, o)
	domains, valid := domainsByDefinition(specs, o.Merge)
	if err := problems.Err(); valid != (err == nil) {
		t.Fatalf("with Merge %v, whether these files are right is %v, but the errors are %v\n%s", o.Merge, valid, err, files)
	}
	if !valid {
		return 0
	}
	for range 20 {
		domain := choose.of("d", "d", "d", "e/=", "e/=", "f")
		level, known := domains[domain]
		d := choose.descriptor(level)
		m := c.Match(domain, d)
		if got := m.Kind != descriptors.UnknownDomain; got != known {
			t.Fatalf("whether domain %s is known is %v, want %v", domain, got, known)
		}
		if x := c.Explain(domain, d); x.Match != m || x.Reason == "" {
			t.Fatalf("%v: Explain tells of another match than Match makes, %+v:\n%v", d, m, x)
		}
		steps := matchByDefinition(level, d)
		if len(d) == 0 || len(steps) < len(d) || steps[len(d)-1].limit == "" {
			if m.Rule != nil || m.Kind == descriptors.RuleMatches {
				t.Fatalf("%q: got %+v, want no rule in\n%s", d, m, files)
			}
			continue
		}
		found++
		if m.Kind != descriptors.RuleMatches || m.Rule.Message != steps[len(d)-1].message || m.Rule.Domain != domain {
			t.Fatalf("%q: got %+v, want the rule with %q in\n%s", d, m, steps[len(d)-1].message, files)
		}
		checkCounted(t, m, o.Keys.Prefix, domain, d, steps)
	}
	return found
}

// checkCounted fails unless a match counts d under the key of the parts that the definition says.
func checkCounted(t *testing.T, m descriptors.Match, prefix, domain string, d descriptors.Descriptor, steps []*spec) {
	t.Helper()
	counted, apart := countedByDefinition(steps, d)
	for _, test := range []struct {
		m    descriptors.Match
		want descriptors.Descriptor
	}{{m, counted}, {m.ForOverride(&descriptors.Limit{}, 0), d}} {
		want := []string{domain}
		if prefix != "" {
			want = []string{prefix, domain}
		}
		for _, e := range test.want {
			want = append(want, e.Key, e.Value)
		}
		key := string(test.m.AppendKey(nil, domain, d))
		wantKey := ""
		for _, part := range want { // all are short
			wantKey += fmt.Sprintf("%d:%s", len(part), part)
		}
		if key != wantKey {
			t.Fatalf("%q counts under %q, want %q", d, key, wantKey)
		}
	}
	if got := string(m.Rule.AppendValue(nil, d)); got != apart {
		t.Fatalf("the history tells %q apart by %q, want %q", d, got, apart)
	}
}

func TestMatchAgreesWithItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	found, walks := 0, 300
	if testing.Short() {
		walks = 60
	}
	for range walks {
		data := make([]byte, 1500)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		found += checkMatch(t, data)
	}
	if found < 100 {
		t.Errorf("only %d descriptors found a rule: the trees are not worth matching", found)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("\x01\x00\x02abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) { checkMatch(t, data[:min(len(data), 2000)]) })
}

// fitsByDefinition is Entry.Fits, slow and obviously right.
func fitsByDefinition(own, e descriptors.Entry) bool {
	return globByDefinition(own.Key, e.Key) && (own.Value == "" || globByDefinition(own.Value, e.Value))
}

func FuzzFits(f *testing.F) {
	f.Add("a*b", "axb")
	f.Add("*ab*ab*", "aabab")
	f.Add("**", "\xff")
	f.Add("a*a", "a")
	f.Add("*a*a", "a")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		own, e := descriptors.Entry{Key: pattern[:min(len(pattern), 8)]}, descriptors.Entry{Key: s[:min(len(s), 16)]}
		if got, want := own.Fits(e), fitsByDefinition(own, e); got != want {
			t.Errorf("%q fits %q: got %v, want %v", own.Key, e.Key, got, want)
		}
	})
}

func globByDefinition(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return globByDefinition(pattern[1:], s) || (s != "" && globByDefinition(pattern, s[1:]))
	}
	return s != "" && s[0] == pattern[0] && globByDefinition(pattern[1:], s[1:])
}

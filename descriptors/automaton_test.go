package descriptors

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// patternsOf returns the patterns among a level's entries, each once.
func patternsOf(entries ...Entry) *patterns {
	ps := &patterns{}
	for _, e := range entries {
		if e.isPattern() && !slices.ContainsFunc(ps.all, func(p pattern) bool { return p.Entry == e }) {
			ps.add(pattern{e, &Node{Where: e.String()}})
		}
	}
	return ps
}

// firstByDefinition is patterns.first without an index.
func firstByDefinition(ps *patterns, e Entry) *Node {
	for i := range ps.all {
		if ps.all[i].Fits(e) {
			return ps.all[i].next
		}
	}
	return nil
}

// Few letters make words that overlap, repeat, and begin or end each other.
func TestManyPatternsMatchAsEachAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 8))
	text := func(letters string, least, most int) string {
		all := make([]byte, least+random.IntN(most-least+1))
		for i := range all {
			all[i] = letters[random.IntN(len(letters))]
		}
		return string(all)
	}
	of := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	rounds, found, asked, indexed := 300, 0, 0, 0
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		var entries []Entry
		for range 400 {
			value := of("", "", "a", "ab") + "*" + of(text("ab**", 9, 14), text("abc**", 12, 20), text("aaaab*", 14, 18))
			entries = append(entries, Entry{of("key", "k*y"), value}, Entry{of("key", "*"), text("ab", 9, 9)})
		}
		ps := patternsOf(entries...)
		ps.index()
		indexed += len(ps.automata)
		for range 100 {
			e := Entry{of("key", "kiy", "k", "k*y"), of(text("ab", 0, 13), text("abc", 5, 40), text("ac", 9, 400), text("a", 0, 400))}
			got, want := ps.first(&e), firstByDefinition(ps, e)
			if got != want {
				t.Fatalf("%v leads to %v, want %v, the first of these that fits: %v", e, got, want, ps.all)
			}
			if asked++; got != nil {
				found++
			}
		}
	}
	if t.Logf("%d of %d fit, %d automata", found, asked, indexed); indexed < 2*rounds || found < asked/10 || found > asked-asked/10 {
		t.Error("want many that fit, many that do not, and two automata each round")
	}
}

func FuzzAutomaton(f *testing.F) {
	f.Add("*a*\n*ab*b\n*a*a*\n*aa*a", "aabab", byte(4))
	f.Add("*ab*ab*\n**b**a*\n*bab*b", "ababab", byte(2))
	f.Add("*\xff*\n*\n*a", "a\xff", byte(9))
	f.Fuzz(func(t *testing.T, lines, text string, best byte) {
		ps := &patterns{}
		for value := range strings.SplitSeq(lines[:min(len(lines), 400)], "\n") {
			ps.add(pattern{Entry: Entry{"key", value}})
		}
		var inner []int
		for i, p := range ps.all {
			if len(innerWords(p.Value)) > 0 && p.Value[0] == '*' {
				inner = append(inner, i)
			}
		}
		if len(inner) == 0 {
			return
		}
		text = text[:min(len(text), 400)]
		want := int(best)
		for _, i := range slices.Backward(inner) {
			if i < want && glob(ps.all[i].Value, text) {
				want = i
			}
		}
		a := newAutomaton(ps.all, inner)
		for range 2 { // the second time with the memory of the first
			if got := a.first(text, int(best)); got != want {
				t.Errorf("%q: the first of %q before %d is %d, want %d", text, ps.all, best, got, want)
			}
		}
	})
}

// numbered returns n values, as format makes them of their numbers.
func numbered(format string, n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = strings.ReplaceAll(format, "%d", fmt.Sprint(i))
	}
	return values
}

// nested returns n patterns whose last words end each other: *z*a*, *z*aa* and so on.
func nested(n int) []string {
	values := make([]string, n)
	for i := range values {
		values[i] = "*z*" + strings.Repeat("a", i+1) + "*"
	}
	return values
}

// Anybody may send any value: none may cost as much as all patterns, each over the whole of it.
func TestHostileValuesAreReadOnce(t *testing.T) {
	const n, length = 5000, 60_000
	tests := []struct {
		name, key string
		patterns  []string
		value     string
	}{
		{"near misses", "key", numbered("*bot%d*", n), strings.Repeat("bot", length/3)},
		{"starred keys", "k*", numbered("*bot%d*", n), strings.Repeat("bot", length/3)},
		{"a common head", "key", numbered("/x*bot%d*", n), "/x" + strings.Repeat("bot", length/3)},
		{"all first words", "key", numbered("*a%d*b*", n), strings.Join(numbered("a%d", length/5), "")},
		{"all words but the end", "key", numbered("*a%d*b*c", n), strings.Join(numbered("a%d", n), "") + strings.Repeat("b", length)},
		{"words that end each other", "key", nested(500), strings.Repeat("a", length)},
		{"words that overlap", "key", numbered("*bab*bab*bab*%d", n), strings.Repeat("ab", length/2)},
		{"words that are waited for", "key", append(nested(500), numbered("*z*z*b%d*", n)...),
			strings.Repeat("a", length/2) + strings.Repeat("z", length/2)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var root Node
			for _, value := range test.patterns {
				root.Add(test.key, value, "")
			}
			root.index()
			var passes []*pass
			for _, a := range root.patterns.automata {
				a.passes.New = func() any {
					passes = append(passes, new(pass))
					return passes[len(passes)-1]
				}
			}
			if next := root.child(&Entry{"key", test.value}); next != nil {
				t.Fatalf("the value fits %v, want one that fits nothing", next)
			}
			if len(passes) != 1 {
				t.Fatalf("the value was read in %d passes over all patterns, want one", len(passes))
			}
			written := len(strings.Join(test.patterns, ""))
			if most := 2 * (len(test.value) + written); passes[0].steps > most {
				t.Errorf("the pass took %d steps for %d bytes, and %d of patterns, want at most %d", passes[0].steps,
					len(test.value), written, most)
			}
		})
	}
}

func TestPatternsTriedCountsSharedPrefixes(t *testing.T) {
	var root Node
	for _, value := range slices.Concat(numbered("/x%d*", 50), numbered("/y*z%d", 9), []string{"/y", "/z*a"}) {
		root.Add("path", value, "")
	}
	if got := root.PatternsTried(); got != 9 {
		t.Errorf("an entry may be compared with %d patterns, want the 9 that begin with /y: text tells the others apart", got)
	}
	for _, key := range numbered("*k%d", 12) {
		root.Add(key, "", "")
	}
	if got := root.PatternsTried(); got != 12 {
		t.Errorf("an entry may be compared with %d patterns, want the 12 that have a * in the key", got)
	}
}

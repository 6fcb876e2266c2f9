package descriptors

import (
	"slices"
	"strings"
)

// pattern is a child whose key or value holds a '*'. A value of "" fits any value.
type pattern struct {
	Entry
	next *Node
}

// minIndexed is how many patterns are worth an automaton. On fewer glob is faster, unless their words are long.
const minIndexed = 16

// patterns are those of a level. They are found by what their values begin with, so that a level may have thousands.
type patterns struct {
	all      []pattern            // in the order of the file
	starred  []int                // the index of the first pattern of each key that holds a '*'
	byHead   map[Entry][]int      // indexes, by key and the text before the first '*' of the value
	lengths  []int                // of those texts, ascending
	automata map[Entry]*automaton // by the same, in place of indexes that are many
	inner    int                  // patterns with text between stars
	tried    int                  // the most patterns that one entry is compared with: at most, all of inner
}

func (ps *patterns) add(p pattern) {
	index := len(ps.all)
	ps.all = append(ps.all, p)
	head, _, _ := strings.Cut(p.Value, "*")
	if at, known := slices.BinarySearch(ps.lengths, len(head)); !known {
		ps.lengths = slices.Insert(ps.lengths, at, len(head))
	}
	if ps.byHead == nil {
		ps.byHead, ps.automata = make(map[Entry][]int), make(map[Entry]*automaton)
	}
	if first := (Entry{Key: p.Key}); ps.byHead[first] == nil && strings.Contains(p.Key, "*") {
		ps.starred, ps.byHead[first] = append(ps.starred, index), []int{}
	}
	id := Entry{p.Key, head}
	ps.byHead[id] = append(ps.byHead[id], index)
	if len(innerWords(p.Value)) > 0 {
		ps.inner++
	}
	ps.tried = max(ps.tried, len(ps.byHead[id]), len(ps.starred), ps.inner)
}

// index makes the automata. No pattern is added after it.
func (ps *patterns) index() {
	inner := func(index int) bool { return len(innerWords(ps.all[index].Value)) > 0 }
	outer := func(index int) bool { return !inner(index) }
	for id, indexes := range ps.byHead {
		if many := slices.DeleteFunc(slices.Clone(indexes), outer); len(many) >= minIndexed {
			ps.automata[id], ps.byHead[id] = newAutomaton(ps.all, many), slices.DeleteFunc(indexes, inner)
		}
	}
}

// first returns the child of the first pattern that fits e, nil if none does.
func (ps *patterns) first(e *Entry) *Node {
	best := ps.firstOf(*e, len(ps.all))
	for _, index := range ps.starred {
		if key := ps.all[index].Key; index < best && glob(key, e.Key) {
			best = ps.firstOf(Entry{key, e.Value}, best)
		}
	}
	if best == len(ps.all) {
		return nil
	}
	return ps.all[best].next
}

// firstOf returns the index of the first pattern with e's key that fits its value, or best if none before that does.
func (ps *patterns) firstOf(e Entry, best int) int {
	for _, n := range ps.lengths {
		if n > len(e.Value) {
			break
		}
		id := Entry{e.Key, e.Value[:n]}
		for _, index := range ps.byHead[id] {
			if index >= best || ps.all[index].Fits(e) {
				best = min(index, best)
				break
			}
		}
		if a := ps.automata[id]; a != nil && best > int(a.begin.parts[1].index) {
			best = a.first(e.Value[n:], best)
		}
	}
	return best
}

// Fits reports whether the key and value of a configured descriptor fit other, an entry of a request: each is the same
// text or a pattern that fits, and a value of "" fits any value.
func (e *Entry) Fits(other Entry) bool {
	return glob(e.Key, other.Key) && (e.Value == "" || glob(e.Value, other.Value))
}

// innerWords returns the texts between the stars of a pattern, which may stand anywhere in a value.
func innerWords(pattern string) []string {
	first, last := strings.IndexByte(pattern, '*'), strings.LastIndexByte(pattern, '*')
	return strings.FieldsFunc(pattern[max(first, 0):last+1], func(r rune) bool { return r == '*' })
}

// glob reports whether s fits pattern, in which each '*' stands for any number of bytes, none included. A greedy scan
// is enough: matching the part before a star as early as possible never spoils what follows it.
func glob(pattern, s string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == s
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		at := strings.Index(s, part)
		if at < 0 {
			return false
		}
		s, rest = s[at+len(part):], after
	}
}

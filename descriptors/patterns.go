package descriptors

import (
	"slices"
	"strings"
)

// pattern is a child whose key or value has a '*'. A value of "" matches any value.
type pattern struct {
	Entry
	next *Node
}

// minIndexed is the least number of patterns for an automaton. With fewer glob is faster, unless their words are long.
const minIndexed = 16

// patterns are the patterns of a level. They are indexed by the beginnings of their values, so that a level may have
// thousands.
type patterns struct {
	all      []pattern            // in the order of the file
	starred  []int                // for each key with a '*', the index of its first pattern
	byHead   map[Entry][]int      // indexes, by key and the text before the first '*' of the value
	lengths  []int                // lengths of those texts, ascending
	automata map[Entry]*automaton // by the same, an automaton instead of many indexes
	inner    int                  // number of patterns with text between stars
	tried    int                  // see Node.PatternsTried
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

// index makes the automata. No pattern may be added after it.
func (ps *patterns) index() {
	inner := func(index int) bool { return len(innerWords(ps.all[index].Value)) > 0 }
	outer := func(index int) bool { return !inner(index) }
	for id, indexes := range ps.byHead {
		if many := slices.DeleteFunc(slices.Clone(indexes), outer); len(many) >= minIndexed {
			ps.automata[id], ps.byHead[id] = newAutomaton(ps.all, many), slices.DeleteFunc(indexes, inner)
		}
	}
}

// first returns the child of the first pattern that matches e, nil if none does.
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

// firstOf returns the index of the first pattern with e's key that matches its value, or best if no pattern before best
// does.
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

// Fits reports whether a configured key and value match an entry of a request. A value of "" matches any value.
func (e *Entry) Fits(other Entry) bool {
	return glob(e.Key, other.Key) && (e.Value == "" || glob(e.Value, other.Value))
}

// innerWords returns the texts between the stars of a pattern.
func innerWords(pattern string) []string {
	first, last := strings.IndexByte(pattern, '*'), strings.LastIndexByte(pattern, '*')
	return strings.FieldsFunc(pattern[max(first, 0):last+1], func(r rune) bool { return r == '*' })
}

// glob reports whether s matches pattern, in which each '*' stands for any number of bytes, or none. A greedy scan is
// enough: if any match exists, one exists with each part as early as possible.
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

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

// patterns are those of a level. They are found by what their values begin with, so that a level may have thousands.
type patterns struct {
	all     []pattern       // in the order of the file
	starred []int           // indexes of those with a '*' in the key
	byHead  map[Entry][]int // indexes of all others, by key and the text before the first '*' of the value
	lengths []int           // of those texts, ascending
}

func (ps *patterns) add(p pattern) {
	index := len(ps.all)
	ps.all = append(ps.all, p)
	if strings.Contains(p.Key, "*") {
		ps.starred = append(ps.starred, index)
		return
	}
	head, _, _ := strings.Cut(p.Value, "*")
	if at, known := slices.BinarySearch(ps.lengths, len(head)); !known {
		ps.lengths = slices.Insert(ps.lengths, at, len(head))
	}
	if ps.byHead == nil {
		ps.byHead = make(map[Entry][]int)
	}
	id := Entry{p.Key, head}
	ps.byHead[id] = append(ps.byHead[id], index)
}

// first returns the child of the first pattern that fits e, nil if none does.
func (ps *patterns) first(e *Entry) *Node {
	index := ps.firstOf(ps.starred, e, len(ps.all))
	for _, n := range ps.lengths {
		if n > len(e.Value) {
			break
		}
		index = ps.firstOf(ps.byHead[Entry{e.Key, e.Value[:n]}], e, index)
	}
	if index == len(ps.all) {
		return nil
	}
	return ps.all[index].next
}

// firstOf returns the first of these indexes whose pattern fits e, or best if none before that does.
func (ps *patterns) firstOf(indexes []int, e *Entry, best int) int {
	for _, index := range indexes {
		if index >= best || ps.all[index].Fits(*e) {
			return min(index, best)
		}
	}
	return best
}

// Fits reports whether the key and value of a configured descriptor fit other, an entry of a request: each is the same
// text or a pattern that fits, and a value of "" fits any value.
func (e *Entry) Fits(other Entry) bool {
	return glob(e.Key, other.Key) && (e.Value == "" || glob(e.Value, other.Value))
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

package descriptors

import (
	"slices"
	"strings"
)

// pattern is a child whose key or value holds a '*'.
type pattern struct {
	key, value string // value "" matches any value
	next       *node
}

// patterns are those of a level. They are found by what their values begin with, so that a level may have thousands.
type patterns struct {
	all     []pattern       // in the order of the file
	starred []int           // places of those with a '*' in the key
	byHead  map[Entry][]int // places of all others, by key and the text before the first '*' of the value
	lengths []int           // of those texts, ascending
}

func (ps *patterns) add(p pattern) {
	place := len(ps.all)
	ps.all = append(ps.all, p)
	if strings.Contains(p.key, "*") {
		ps.starred = append(ps.starred, place)
		return
	}
	head, _, _ := strings.Cut(p.value, "*")
	if at, known := slices.BinarySearch(ps.lengths, len(head)); !known {
		ps.lengths = slices.Insert(ps.lengths, at, len(head))
	}
	if ps.byHead == nil {
		ps.byHead = make(map[Entry][]int)
	}
	id := Entry{p.key, head}
	ps.byHead[id] = append(ps.byHead[id], place)
}

// first is what the first pattern leads to that e fits, nil if there is none.
func (ps *patterns) first(e *Entry) *node {
	place := ps.firstOf(ps.starred, e, len(ps.all))
	for _, n := range ps.lengths {
		if n > len(e.Value) {
			break
		}
		place = ps.firstOf(ps.byHead[Entry{e.Key, e.Value[:n]}], e, place)
	}
	if place == len(ps.all) {
		return nil
	}
	return ps.all[place].next
}

// firstOf is the first of these places whose pattern e fits, or best if none before that does.
func (ps *patterns) firstOf(places []int, e *Entry, best int) int {
	for _, place := range places {
		if place >= best || ps.all[place].matches(e) {
			return min(place, best)
		}
	}
	return best
}

func (p *pattern) matches(e *Entry) bool {
	return glob(p.key, e.Key) && (p.value == "" || glob(p.value, e.Value))
}

// glob says whether s fits pattern, in which each '*' stands for any number of bytes, none included. A greedy scan is
// enough: matching the part before a star as early as possible never spoils what follows it.
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

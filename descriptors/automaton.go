package descriptors

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// automaton finds the first of many patterns that match a text, in one pass over it (Aho and Corasick, 1975). Each
// pattern waits for one of its words at a time and matches it as early as possible, as glob does. Words for which no
// pattern waits are skipped, so the pass takes time proportional to the bytes of the text and of the patterns.
type automaton struct {
	all    []pattern
	states []state    // breadth first, so that the children of a state are adjacent; an extra one ends the last
	labels []byte     // by state, its last byte
	root   [256]int32 // by byte, the state of that byte alone
	begin  pass       // the pass before the first byte
	passes sync.Pool  // of *pass
}

// state stands for the last bytes, which are a prefix of a word.
type state struct {
	children int32 // the first child
	fail     int32 // the longest other state that is a suffix of this one
	word     int32 // the longest word that is a suffix of this state, 0 for none
}

// pass is the state of the patterns in a pass over a text. Index 0 of words and parts means none.
type pass struct {
	words  []word
	parts  []part // the parts of the patterns, in their order
	pushes int32  // number of calls of push
	best   int    // index of the first pattern that matches
	steps  int    // steps of all passes with this memory, for tests
}

// word is a text between two stars.
type word struct {
	size    int32
	waiting int32 // the first part that waits for the word
	shorter int32 // the longest other word that is a suffix of this one; in a pass, the longest for which a part waited at pushes
	pushes  int32 // value of pass.pushes when shorter was computed
}

// part is an occurrence of a word in a pattern.
type part struct {
	word, index int32 // index is that of the pattern
	last        bool  // the pattern has no further part
	next        int32 // another part that waits for the word
	from        int32 // end of the previous part in the text
}

func newAutomaton(all []pattern, indexes []int) *automaton {
	texts := []string{""}
	for _, index := range indexes {
		texts = append(texts, innerWords(all[index].Value)...)
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	a := &automaton{all: all, begin: pass{words: make([]word, len(texts)), parts: make([]part, 1)}}
	a.passes.New = func() any { return new(pass) }
	a.addStates(texts)
	for _, index := range indexes {
		words := innerWords(all[index].Value)
		for i, text := range words {
			id, _ := slices.BinarySearch(texts, text)
			a.begin.parts = append(a.begin.parts, part{word: int32(id), index: int32(index), last: i == len(words)-1})
			if i == 0 {
				a.begin.push(int32(len(a.begin.parts) - 1))
			}
		}
	}
	return a
}

// addStates adds a state for each prefix of a text, and sets size and shorter of the words. texts must be sorted.
func (a *automaton) addStates(texts []string) {
	type span struct{ begin, end, depth int } // the texts that begin with a state
	a.states, a.labels = make([]state, 1), make([]byte, 1)
	s := 0
	for spans := []span{{0, len(texts), 0}}; len(spans) > 0; spans = spans[1:] {
		at, end, depth, fail := spans[0].begin, spans[0].end, spans[0].depth, a.states[s].fail
		a.states[s].children, a.states[s].word = int32(len(a.states)), a.states[fail].word
		if len(texts[at]) == depth {
			a.begin.words[at] = word{size: int32(depth), shorter: a.states[fail].word}
			a.states[s].word = int32(at)
			at++
		}
		for at < end {
			begin, label, child := at, texts[at][depth], state{}
			for at < end && texts[at][depth] == label {
				at++
			}
			if s > 0 {
				child.fail = a.next(fail, label)
			} else {
				a.root[label] = int32(len(a.states))
			}
			spans = append(spans, span{begin, at, depth + 1})
			a.states, a.labels = append(a.states, child), append(a.labels, label)
		}
		s++
	}
	a.states = append(a.states, state{children: int32(len(a.states))})
}

// next returns the state after one more byte.
func (a *automaton) next(s int32, c byte) int32 {
	for ; s != 0; s = a.states[s].fail {
		first := a.states[s].children
		if i := bytes.IndexByte(a.labels[first:a.states[s+1].children], c); i >= 0 {
			return first + int32(i)
		}
	}
	return a.root[c]
}

// first returns the index of the first pattern that matches text, which follows the patterns' common head, or best if
// no pattern before best matches.
func (a *automaton) first(text string, best int) int {
	p := a.passes.Get().(*pass)
	defer a.passes.Put(p)
	p.words, p.parts = append(p.words[:0], a.begin.words...), append(p.parts[:0], a.begin.parts...)
	p.pushes, p.best = a.begin.pushes, best
	s := int32(0)
	for i := 0; i < len(text) && p.best > int(p.parts[1].index); i++ {
		if s == 0 { // saves the call for most bytes of most texts
			s = a.root[text[i]]
		} else {
			s = a.next(s, text[i])
		}
		if w := a.states[s].word; w != 0 {
			a.advance(p, w, text, int32(i+1))
		}
	}
	return p.best
}

// advance advances the patterns that wait for w or for a suffix of it; text[:end] ends with w. It returns the longest
// of these words for which a part waits afterwards, 0 for none.
func (a *automaton) advance(p *pass, w int32, text string, end int32) int32 {
	if w == 0 {
		return 0
	}
	p.steps++
	word := &p.words[w]
	id := word.waiting
	for word.waiting = 0; id != 0; p.steps++ {
		part, current := &p.parts[id], id
		id = part.next
		switch pattern := a.all[part.index].Value; {
		case int(part.index) >= p.best:
		case part.from+word.size > end: // the word overlaps the one before
			part.next, word.waiting = word.waiting, current
		case !part.last:
			p.parts[current+1].from = end
			p.push(current + 1)
		case strings.HasSuffix(text[end:], pattern[strings.LastIndexByte(pattern, '*')+1:]):
			p.best = int(part.index)
		}
	}
	if word.pushes != p.pushes { // a part may now wait for a word that was skipped
		word.shorter, word.pushes = a.begin.words[w].shorter, p.pushes
	}
	word.shorter = a.advance(p, word.shorter, text, end)
	if word.waiting != 0 {
		return w
	}
	return word.shorter
}

// push makes a part wait for its word.
func (p *pass) push(id int32) {
	word := &p.words[p.parts[id].word]
	p.parts[id].next, word.waiting = word.waiting, id
	p.pushes++
}

// Package byrule keeps something for each rule of the configuration in force, and for what no rule matches in each of its
// domains and in none. A rule keeps what it has across reloads; one that is gone is forgotten ten minutes later. Entries
// are made at a reload, so their number never grows with the names that requests bring.
package byrule

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Grace is how long an entry stays once a sweep has found that its rule is gone: far longer than any request runs.
const Grace = 10 * time.Minute

// Name finds an entry. Descriptors without a rule have the path descriptors.UnmatchedPath in their domain, or in descriptors.UnknownDomainName.
type Name struct{ Domain, Path string }

// Entry is what is kept for a rule, or for what no rule matches.
type Entry[T any] struct {
	Value T // first, as it is all that requests fetch
	Name

	// Guarded by Registry.mu:
	inForce bool      // the latest table has it
	gone    time.Time // when a sweep first found that the latest table has not; zero while it has
	overdue bool      // the last sweep found it gone for Grace
}

// Registry holds the entries. Its methods may be called by any number of goroutines.
type Registry[T any] struct {
	prepare func(*Entry[T], *descriptors.Rule) // a new entry; nil if its zero value is ready

	mu      sync.Mutex
	entries map[Name]*Entry[T]
}

// New makes a registry. prepare, if not nil, must not wait; it is given each new entry and its rule, nil for no rule.
func New[T any](prepare func(e *Entry[T], rule *descriptors.Rule)) *Registry[T] {
	return &Registry[T]{prepare: prepare, entries: make(map[Name]*Entry[T])}
}

// Table finds the entries for the descriptors of one configuration. Tables before and after it find the same ones.
type Table[T any] struct {
	entries []*Entry[T] // by [descriptors.Config.Place]
}

// Table makes the table of a configuration that is about to be put in force, broken domains included.
func (r *Registry[T]) Table(c *descriptors.Config) *Table[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		e.inForce = false
	}
	names := slices.Concat(c.DomainNames(), c.BrokenNames())
	t := &Table[T]{make([]*Entry[T], 1+len(names)+len(c.Rules()))}
	t.entries[0] = r.entry(Name{descriptors.UnknownDomainName, descriptors.UnmatchedPath}, nil)
	for _, name := range names {
		t.entries[c.Place(name, nil)] = r.entry(Name{name, descriptors.UnmatchedPath}, nil)
	}
	for _, rule := range c.Rules() {
		t.entries[c.Place(rule.Domain, rule)] = r.entry(Name{rule.Domain, rule.Path}, rule)
	}
	return t
}

// entry returns the entry of a name in force, made if there is none; rule is nil for what no rule matches.
func (r *Registry[T]) entry(name Name, rule *descriptors.Rule) *Entry[T] {
	e := r.entries[name]
	if e == nil {
		e = &Entry[T]{Name: name}
		if r.prepare != nil {
			r.prepare(e, rule)
		}
		r.entries[name] = e
	}
	e.inForce = true
	return e
}

// At returns what is kept at a place. It neither waits nor allocates.
func (t *Table[T]) At(place int) *T { return &t.entries[place].Value }

// All returns the entries of the latest table, and of rules that are gone and not forgotten yet, in no particular order.
func (r *Registry[T]) All() []*Entry[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(make([]*Entry[T], 0, len(r.entries)), maps.Values(r.entries))
}

// Sweep forgets the entries whose rules are gone for Grace: at the second sweep that finds it so, as the whole process
// may have stood still before the first, and with it requests that still use the entry.
func (r *Registry[T]) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, e := range r.entries {
		switch {
		case e.inForce:
			e.gone, e.overdue = time.Time{}, false
		case e.gone.IsZero():
			e.gone = now
		case now.Sub(e.gone) < Grace:
		case e.overdue:
			delete(r.entries, name)
		default:
			e.overdue = true
		}
	}
}

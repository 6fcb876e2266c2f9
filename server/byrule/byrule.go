// Package byrule keeps a value for each rule of the configuration in force, for the unmatched descriptors of each of
// its domains, and for unknown domains. Values survive reloads; those of removed rules are deleted ten minutes later.
// Entries are made at reloads, so their number does not grow with requests.
package byrule

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Grace is how long an entry stays after a sweep has found that its rule is gone: far longer than any request takes.
const Grace = 10 * time.Minute

// Name identifies an entry. Unmatched descriptors have the path descriptors.UnmatchedPath in their domain, or in
// descriptors.UnknownDomainName.
type Name struct{ Domain, Path string }

// Entry holds the value of a rule, or of unmatched descriptors.
type Entry[T any] struct {
	Value T // first, because requests read no other field
	Name

	// Guarded by Registry.mu:
	inForce bool      // it is in the latest table
	gone    time.Time // when a sweep first found it missing in the latest table; zero while it is there
	overdue bool      // the last sweep found it gone for Grace
}

// Registry holds the entries. Its methods may be called by any number of goroutines.
type Registry[T any] struct {
	prepare func(*Entry[T], *descriptors.Rule) // initializes a new entry; nil if the zero value is ready

	mu      sync.Mutex
	entries map[Name]*Entry[T]
}

// New makes a registry. prepare, if not nil, initializes each new entry; rule is nil for unmatched descriptors. It must
// not block.
func New[T any](prepare func(e *Entry[T], rule *descriptors.Rule)) *Registry[T] {
	return &Registry[T]{prepare: prepare, entries: make(map[Name]*Entry[T])}
}

// Table finds the entries for the descriptors of one configuration. Tables share the entries of a rule.
type Table[T any] struct {
	entries []*Entry[T] // by [descriptors.Config.Place]
}

// Table makes the table of a configuration that is about to be put in force, with its broken domains.
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
		t.entries[c.RuleIndex(name, nil)] = r.entry(Name{name, descriptors.UnmatchedPath}, nil)
	}
	for _, rule := range c.Rules() {
		t.entries[c.RuleIndex(rule.Domain, rule)] = r.entry(Name{rule.Domain, rule.Path}, rule)
	}
	return t
}

// entry returns the entry of a name in force, and makes it if needed; rule is nil for unmatched descriptors.
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

// At returns the value of an index that Config.RuleIndex returns. It neither blocks nor allocates.
func (t *Table[T]) At(index int) *T { return &t.entries[index].Value }

// All returns the entries of the latest table, and those of removed rules that Sweep has not deleted, in no particular order.
func (r *Registry[T]) All() []*Entry[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(make([]*Entry[T], 0, len(r.entries)), maps.Values(r.entries))
}

// Sweep deletes the entries whose rules have been gone for Grace, at the second sweep that finds so: the process may
// have been suspended before the first, together with requests that still use the entry.
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

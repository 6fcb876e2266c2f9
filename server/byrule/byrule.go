// Package byrule keeps something for each rule that is used. A rule keeps what it has across reloads; one that is gone
// is forgotten ten minutes later. Entries are made at their first use, so their number grows with the rules that are
// hit, and never with the names that requests bring.
package byrule

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Grace is how long an entry stays once a sweep has found that its rule is gone: far longer than any request runs.
const Grace = 10 * time.Minute

// Name finds an entry. Descriptors without a rule have the path history.Unmatched in their domain, or in UnknownDomain.
type Name struct{ Domain, Path string }

// Entry is what is kept for a rule, or for what no rule matches.
type Entry[T any] struct {
	Kept T // first, as it is all that requests fetch
	Name

	// Guarded by Registry.mu:
	inForce bool      // the latest table has it
	gone    time.Time // when a sweep first found that the latest table has not; zero while it has
	overdue bool      // the last sweep found it gone for Grace
}

// Registry holds the entries. Its methods may be called by any number of goroutines.
type Registry[T any] struct {
	prepare func(*Entry[T], *descriptors.Rule) // a new entry; nil if its zero value is ready

	mu      sync.Mutex // a rule's first use may wait for it: for a millisecond while a table of 10,000 rules is made
	entries map[Name]*Entry[T]
	latest  *Table[T] // nil before the first
}

// New makes a registry. prepare, if not nil, must not wait; it is given each new entry and its rule, nil for no rule.
func New[T any](prepare func(of *Entry[T], rule *descriptors.Rule)) *Registry[T] {
	return &Registry[T]{prepare: prepare, entries: make(map[Name]*Entry[T])}
}

// Table finds the entries for the descriptors of one configuration. Tables before and after it find the same ones.
type Table[T any] struct {
	registry *Registry[T]
	config   *descriptors.Config
	domains  map[string]*domain[T]
	unknown  place[T]
}

// domain has the places of a domain.
type domain[T any] struct {
	name      string
	rules     []place[T] // by their numbers
	unmatched place[T]
}

// place is where a table keeps an entry: from the start if it was used before, else from its first use on.
type place[T any] = atomic.Pointer[Entry[T]]

// Table makes the table of a configuration that is about to be put in force, broken domains included.
func (r *Registry[T]) Table(c *descriptors.Config) *Table[T] {
	t := &Table[T]{registry: r, config: c, domains: make(map[string]*domain[T], c.Domains())}
	for _, name := range slices.Concat(c.DomainNames(), c.BrokenNames()) {
		t.domains[name] = &domain[T]{name: name}
	}
	for _, rule := range c.Rules() {
		in := t.domains[rule.Domain]
		in.rules = append(in.rules, place[T]{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = t
	for _, e := range r.entries {
		e.inForce = false
	}
	t.each(func(at *place[T], name Name) {
		if e := r.entries[name]; e != nil { // the rule was used before
			e.inForce = true
			at.Store(e)
		}
	})
	return t
}

// each calls do with all places, and what their entries are called.
func (t *Table[T]) each(do func(at *place[T], name Name)) {
	do(&t.unknown, Name{history.UnknownDomain, history.Unmatched})
	for name, in := range t.domains {
		do(&in.unmatched, Name{name, history.Unmatched})
	}
	for _, rule := range t.config.Rules() {
		do(&t.domains[rule.Domain].rules[rule.Number], Name{rule.Domain, rule.Path})
	}
}

// Of returns the entry of a rule of the table's configuration, or of what none matches if it is nil, and reports
// whether the configuration has the domain. It neither waits nor allocates, but at a rule's first use.
func (t *Table[T]) Of(rule *descriptors.Rule, domain string) (e *Entry[T], known bool) {
	in, known := t.domains[domain]
	at := &t.unknown
	switch {
	case !known:
	case rule == nil:
		at = &in.unmatched
	default:
		at = &in.rules[rule.Number]
	}
	if e := at.Load(); e != nil {
		return e, known
	}
	name := Name{history.UnknownDomain, history.Unmatched}
	if known {
		name.Domain = in.name // which is not the request's
	}
	if rule != nil {
		name.Path = rule.Path
	}
	return t.registry.add(t, at, name, rule), known
}

// add fills a place of a table on its first use.
func (r *Registry[T]) add(t *Table[T], at *place[T], name Name, rule *descriptors.Rule) *Entry[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[name]
	if e == nil {
		e = &Entry[T]{Name: name}
		if r.prepare != nil {
			r.prepare(e, rule)
		}
		r.entries[name] = e
	}
	at.Store(e)
	if t == r.latest {
		e.inForce = true
		return e
	}
	r.latest.each(func(at *place[T], of Name) { // which looked for the entry before it was there
		if of == name {
			e.inForce = true
			at.Store(e)
		}
	})
	return e
}

// All returns the entries that there are, in no particular order.
func (r *Registry[T]) All() []*Entry[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(make([]*Entry[T], 0, len(r.entries)), maps.Values(r.entries))
}

// Names returns what the entries of the latest table are called, whether they were used or not; none before the first.
func (r *Registry[T]) Names() (all []Name) {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	if latest != nil {
		latest.each(func(_ *place[T], name Name) { all = append(all, name) })
	}
	return all
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

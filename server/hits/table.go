package hits

import (
	"sync/atomic"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Table finds the counters for the descriptors of one configuration. It counts into the same counters as the tables
// before and after it. Its methods may be called by any number of goroutines.
type Table struct {
	recorder *Recorder
	number   uint64 // of the recorder's tables, from 1
	domains  map[string]*domainTable
	unknown  slot
}

// domainTable has the counters of a domain.
type domainTable struct {
	name      string
	rules     []slot // by their numbers
	unmatched slot
}

// slot is where a table keeps the counters of a rule: from the start if it had hits before, else from its first hit on.
type slot = atomic.Pointer[ruleHits]

// Table makes the table of a configuration that is about to be put in force. Rules that it does not have are forgotten
// some minutes after their last hit, by [Recorder.Drain].
func (r *Recorder) Table(c *descriptors.Config) *Table {
	t := &Table{recorder: r, number: r.next(), domains: make(map[string]*domainTable, c.Domains())}
	t.find(&t.unknown, history.UnknownDomain, history.Unmatched)
	for _, name := range c.DomainNames() {
		in := &domainTable{name: name}
		t.domains[name] = in
		t.find(&in.unmatched, name, history.Unmatched)
	}
	for _, rule := range c.Rules() {
		in := t.domains[rule.Domain]
		in.rules = append(in.rules, slot{})
		t.find(&in.rules[rule.Number], rule.Domain, rule.Path)
	}
	return t
}

// find fills the slot of a rule that had hits before.
func (t *Table) find(in *slot, domain, path string) {
	if s := t.recorder.find(ruleName{domain, path}, t.number); s != nil {
		in.Store(s)
	}
}

// Counter returns where the hits of a descriptor are counted, given the rule of the table's configuration that matches
// it, or nil if none does. It neither waits nor allocates, but for a rule that is hit, or a value that is seen, for the
// first time.
func (t *Table) Counter(rule *descriptors.Rule, domain string, d descriptors.Descriptor) *Counter {
	in := t.domains[domain]
	switch {
	case in == nil:
		return &t.at(&t.unknown, history.UnknownDomain, history.Unmatched).own
	case rule == nil:
		return &t.at(&in.unmatched, in.name, history.Unmatched).own
	}
	s := t.at(&in.rules[rule.Number], in.name, rule.Path)
	if len(rule.Values) == 0 || t.recorder.maxValues == 0 {
		return &s.own
	}
	return s.apart().counter(rule, d, t.recorder.maxValues)
}

// at returns the counters in a slot, made if the rule has none yet.
func (t *Table) at(in *slot, domain, path string) *ruleHits {
	if s := in.Load(); s != nil {
		return s
	}
	return t.first(in, domain, path)
}

// first fills the slot of a rule on its first hit.
func (t *Table) first(in *slot, domain, path string) *ruleHits {
	s := t.recorder.add(ruleName{domain, path}, t.number)
	in.Store(s)
	return s
}

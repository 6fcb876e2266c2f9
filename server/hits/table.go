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
	config   *descriptors.Config
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
	t := &Table{recorder: r, config: c, domains: make(map[string]*domainTable, c.Domains())}
	r.begin(t)
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

// names returns what all that the table may count is found by.
func (t *Table) names() map[ruleName]bool {
	names := map[ruleName]bool{{history.UnknownDomain, history.Unmatched}: true}
	for domain := range t.domains {
		names[ruleName{domain, history.Unmatched}] = true
	}
	for _, rule := range t.config.Rules() {
		names[ruleName{rule.Domain, rule.Path}] = true
	}
	return names
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
		return &t.at(&t.unknown, history.UnknownDomain, nil).own
	case rule == nil:
		return &t.at(&in.unmatched, in.name, nil).own
	}
	s := t.at(&in.rules[rule.Number], in.name, rule)
	if len(rule.Values) == 0 || t.recorder.maxValues == 0 {
		return &s.own
	}
	return s.apart(rule).counter(rule, d, t.recorder.maxValues)
}

// Tallies reports whether hits are counted as envoyproxy/ratelimit does, too.
func (t *Table) Tallies() bool { return t.recorder.tallies }

// Missed counts a descriptor of a domain that the configuration does not have, for these tallies.
func (t *Table) Missed(domain string) {
	if t.recorder.tallies && t.domains[domain] == nil {
		t.recorder.notFound.Add(1)
	}
}

// at returns the counters in a slot, made if the rule, or nil for what none matches, has none yet.
func (t *Table) at(in *slot, domain string, rule *descriptors.Rule) *ruleHits {
	if s := in.Load(); s != nil {
		return s
	}
	return t.first(in, domain, rule)
}

// first fills the slot of a rule on its first hit.
func (t *Table) first(in *slot, domain string, rule *descriptors.Rule) *ruleHits {
	path, tally := history.Unmatched, ""
	if rule != nil {
		path = rule.Path
	}
	switch {
	case !t.recorder.tallies || domain == history.UnknownDomain: // the latter is counted by Missed
	case rule == nil:
		tally = descriptors.MetricName(domain + "." + history.Unmatched)
	default:
		tally = rule.Metric(nil, "")
	}
	s := t.recorder.add(ruleName{domain, path}, t.number, tally)
	in.Store(s)
	return s
}

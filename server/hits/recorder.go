// Package hits counts what became of each rule's hits. The request path pays an atomic add for it; /metrics reads the
// totals, and the exporter of the history drains what has been added since it last did.
//
// A look asks and a refund gives back: neither is a hit, and neither is counted.
package hits

import (
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// DefaultValues is how many values a rule that tells values apart counts by themselves, unless asked otherwise.
const DefaultValues = 100

// idle is how long the counters of a rule that is gone stay after their last hit: far longer than any request runs, so
// that none can still hold them.
const idle = time.Hour

// Recorder holds the counters, by domain and path: rules come and go with configurations, and a rule that is there
// before and after a reload goes on counting where it was. Its methods may be called by any number of goroutines.
type Recorder struct {
	maxValues int

	mu    sync.Mutex
	rules map[ruleName]*ruleHits
}

// ruleName is what a rule's counters are found by; what no rule matched has names of its own.
type ruleName struct{ domain, path string }

// ruleHits are the counters of a rule, or of what no rule matched.
type ruleHits struct {
	own     Counter
	values  values
	current bool      // the latest configuration has it
	busy    time.Time // when a drain last found hits, or first looked
}

// New makes a recorder. Of a rule that tells values apart it counts so many by themselves, the rest under
// history.OtherValue; 0 counts all values as one. It is meant to be some hundreds at most.
func New(maxValues int) *Recorder {
	return &Recorder{maxValues: maxValues, rules: make(map[ruleName]*ruleHits)}
}

// Table finds the counters for the descriptors of one configuration. It is immutable, and counts into the same counters
// as the tables before and after it.
type Table struct {
	domains   map[string]*domainTable
	unknown   *Counter
	maxValues int
}

// domainTable has the counters of a domain.
type domainTable struct {
	rules     []*ruleHits // by their numbers
	unmatched *Counter
}

// Table makes the table of a configuration that is about to be put in force. Rules that it does not have are forgotten
// after an hour without a hit, by [Recorder.Drain].
func (r *Recorder) Table(c *descriptors.Config) *Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.rules {
		s.current = false
	}
	t := &Table{
		domains:   make(map[string]*domainTable, c.Domains()),
		unknown:   &r.at(history.UnknownDomain, history.Unmatched).own,
		maxValues: r.maxValues,
	}
	for _, name := range c.DomainNames() {
		t.domains[name] = &domainTable{unmatched: &r.at(name, history.Unmatched).own}
	}
	for _, rule := range c.Rules() {
		in := t.domains[rule.Domain]
		in.rules = append(in.rules, r.at(rule.Domain, rule.Path))
	}
	return t
}

// at returns the counters of a rule, which is current from now on. The caller holds mu.
func (r *Recorder) at(domain, path string) *ruleHits {
	s := r.rules[ruleName{domain, path}]
	if s == nil {
		s = new(ruleHits)
		r.rules[ruleName{domain, path}] = s
	}
	s.current = true
	return s
}

// Counter returns where the hits of a descriptor are counted, given the rule of the table's configuration that matches
// it, or nil if none does. It neither waits nor allocates, but for a value that is seen for the first time.
func (t *Table) Counter(rule *descriptors.Rule, domain string, d descriptors.Descriptor) *Counter {
	in := t.domains[domain]
	if in == nil {
		return t.unknown
	}
	if rule == nil {
		return in.unmatched
	}
	s := in.rules[rule.Number]
	if len(rule.Values) == 0 || t.maxValues == 0 {
		return &s.own
	}
	return s.values.counter(rule, d, t.maxValues)
}

// Drain calls hand with the hits that were counted since the last call, by series of the history: each hit once. It
// forgets rules that the latest configuration does not have, once they had no hit for an hour.
func (r *Recorder) Drain(now time.Time, hand func(id history.ID, hits uint64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, s := range r.rules {
		id := history.ID{Domain: p.domain, Path: p.path}
		found := s.own.drain(id, hand)
		s.values.each(func(value string, c *Counter) {
			if id.Value = value; value == "" {
				id.Value = history.OtherValue
			}
			found = c.drain(id, hand) || found
		})
		switch {
		case found || s.current || s.busy.IsZero():
			s.busy = now
		case now.Sub(s.busy) >= idle:
			delete(r.rules, p)
		}
	}
}

// Totals are all hits of a rule since it was first configured in this process. Within, Over and Degraded make the
// whole; Near is a part of Within, Shadow of Over.
type Totals struct {
	Domain, Path                         string
	Within, Over, Degraded, Near, Shadow uint64
}

// Totals returns the totals of each rule that has had hits, and of what no rule matched, in no particular order. They
// never go down while the rule is there.
func (r *Recorder) Totals() []Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Totals
	for p, s := range r.rules {
		t := Totals{Domain: p.domain, Path: p.path}
		s.own.addTo(&t)
		s.values.each(func(_ string, c *Counter) { c.addTo(&t) })
		if t.Within+t.Over+t.Degraded > 0 {
			all = append(all, t)
		}
	}
	return all
}

// Package hits counts what became of each rule's hits. The request path pays an atomic add for it; /metrics reads the
// totals, and the exporter of the history drains what has been added since it last did.
//
// A look asks and a refund gives back: neither is a hit, and neither is counted.
package hits

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// DefaultValues is how many values a rule that tells values apart counts by themselves, unless asked otherwise.
const DefaultValues = 100

// grace is how long the counters of a rule that is gone stay after a drain has last found hits there: far longer than any
// request runs, so that none can still hold them.
const grace = 2 * time.Minute

// Recorder holds the counters, by domain and path: rules come and go with configurations, and a rule that is there
// before and after a reload goes on counting where it was. A rule has none before its first hit, so that what is kept
// grows with the rules that are hit, not with those that are configured. Its methods may be called by any number of
// goroutines.
type Recorder struct {
	maxValues int
	tallies   bool          // hits are counted as envoyproxy/ratelimit does, too
	notFound  atomic.Uint64 // descriptors whose domain no configuration has, if tallies

	draining sync.Mutex // one drain at a time

	mu     sync.Mutex // a rule's first hit may wait for it, so it is never held for long
	rules  map[ruleName]*ruleHits
	latest *Table // nil before the first
	past   past   // what the tallies of forgotten rules held
}

// ruleName is what a rule's counters are found by; what no rule matched has names of its own.
type ruleName struct{ domain, path string }

// ruleHits are the counters of a rule, or of what no rule matched, that has had a hit.
type ruleHits struct {
	name   ruleName
	own    Counter
	values atomic.Pointer[values] // nil before the first value that is told apart
	table  uint64                 // number of the latest table that has the rule; for those who hold Recorder.mu

	// For the one that is draining:
	busy time.Time // when a drain last found hits, or the rule in the latest table, or first looked
	idle bool      // the last drain found that the grace is over
}

// New makes a recorder. Of a rule that tells values apart it counts so many by themselves, the rest under
// history.OtherValue; 0 counts all values as one. It is meant to be some hundreds at most.
func New(maxValues int) *Recorder {
	return &Recorder{maxValues: maxValues, rules: make(map[ruleName]*ruleHits)}
}

// KeepTallies has the recorder count hits as envoyproxy/ratelimit does, too, and then at least DefaultValues by
// themselves. It comes before the first table.
func (r *Recorder) KeepTallies() { r.tallies, r.maxValues = true, max(r.maxValues, DefaultValues) }

// Drain calls hand with the hits that were counted since the last call, by series of the history: each hit once. It
// forgets rules that the latest configuration does not have, once no drain has found a hit there for two minutes.
func (r *Recorder) Drain(now time.Time, hand func(id history.ID, hits uint64)) {
	r.draining.Lock()
	defer r.draining.Unlock()
	inForce := sync.OnceValue(r.inForce) // few drains need it
	for _, s := range r.all() {
		switch found := s.drain(hand); {
		case found || s.busy.IsZero() || !r.gone(s):
			s.busy, s.idle = now, false
		case now.Sub(s.busy) < grace:
		case s.idle && inForce().names[s.name]: // the latest table found none, and a request of an earlier one was the first
			r.keep(s, inForce().number)
		case s.idle:
			r.forget(s)
		default: // one more drain: if the whole process stood still for so long, so did its requests
			s.idle = true
		}
	}
}

// begin makes t the latest table, and gives it its number.
func (r *Recorder) begin(t *Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.number = 1
	if r.latest != nil {
		t.number = r.latest.number + 1
	}
	r.latest = t
}

// find returns the counters of a rule that a table has, nil if it has had no hit.
func (r *Recorder) find(name ruleName, table uint64) *ruleHits {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.rules[name]
	if s != nil {
		s.table = max(s.table, table)
	}
	return s
}

// add returns the counters of a rule that a table has, made if it has had no hit. A tally is counted under that name; ""
// keeps none.
func (r *Recorder) add(name ruleName, table uint64, tally string) *ruleHits {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.rules[name]
	if s == nil {
		s = &ruleHits{name: name}
		if tally != "" {
			s.own.tally = &Tally{name: tally}
		}
		r.rules[name] = s
	}
	s.table = max(s.table, table)
	return s
}

// all returns the counters that there are.
func (r *Recorder) all() []*ruleHits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(make([]*ruleHits, 0, len(r.rules)), maps.Values(r.rules))
}

// gone reports whether the latest table has no such rule.
func (r *Recorder) gone(s *ruleHits) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.table != r.latest.number
}

// tableNames are the names of all that a table may count.
type tableNames struct {
	names  map[ruleName]bool
	number uint64 // the table's
}

// inForce returns the names of the latest table.
func (r *Recorder) inForce() tableNames {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	return tableNames{latest.names(), latest.number}
}

// keep keeps a rule that a table has.
func (r *Recorder) keep(s *ruleHits, table uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.table = max(s.table, table)
}

// forget forgets a rule, unless it has come back meanwhile.
func (r *Recorder) forget(s *ruleHits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.table != r.latest.number {
		delete(r.rules, s.name)
		s.tallies(r.past.keep)
	}
}

// apart returns the counters of the rule's values, and makes them if it has none yet.
func (s *ruleHits) apart(rule *descriptors.Rule) *values {
	if v := s.values.Load(); v != nil {
		return v
	}
	v := new(values)
	if s.own.tally != nil {
		v.other.tally = &Tally{name: rule.Metric(nil, history.OtherValue)}
	}
	s.values.CompareAndSwap(nil, v)
	return s.values.Load()
}

// drain hands out what has been counted since it last did, and reports whether there was anything.
func (s *ruleHits) drain(hand func(history.ID, uint64)) (found bool) {
	id := history.ID{Domain: s.name.domain, Path: s.name.path}
	found = s.own.drain(id, hand)
	s.values.Load().each(func(value string, c *Counter) {
		if id.Value = value; value == "" {
			id.Value = history.OtherValue
		}
		found = c.drain(id, hand) || found
	})
	return found
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
	var all []Totals
	for _, s := range r.all() {
		t := Totals{Domain: s.name.domain, Path: s.name.path}
		s.own.addTo(&t)
		s.values.Load().each(func(_ string, c *Counter) { c.addTo(&t) })
		if t.Within+t.Over+t.Degraded > 0 {
			all = append(all, t)
		}
	}
	return all
}

// AllTotals returns the totals as Totals does, and zeros for each rule of the latest table that has had no hits, and for
// what no rule matches in its domains and in none.
func (r *Recorder) AllTotals() []Totals {
	r.mu.Lock()
	latest := r.latest
	r.mu.Unlock()
	var names map[ruleName]bool
	if latest != nil {
		names = latest.names()
	}
	all := slices.Grow(r.Totals(), len(names))
	for _, t := range all {
		delete(names, ruleName{t.Domain, t.Path})
	}
	for name := range names {
		all = append(all, Totals{Domain: name.domain, Path: name.path})
	}
	return all
}

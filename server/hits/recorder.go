// Package hits counts what became of each rule's hits. The request path pays an atomic add for it; /metrics reads the
// totals, and the exporter of the history drains what has been added since it last did.
//
// A look asks and a refund gives back: neither is a hit, and neither is counted.
package hits

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

// DefaultValues is how many values a rule that tells values apart counts by themselves, unless asked otherwise.
const DefaultValues = 100

// Recorder holds the counters, by domain and path. Its methods may be called by any number of goroutines.
type Recorder struct {
	maxValues int
	rules     *byrule.Registry[ruleHits]
	ratelimit ratelimitTotals
	notFound  atomic.Uint64 // descriptors whose domain no configuration has, if hits are counted as by ratelimit

	draining sync.Mutex // one drain at a time
}

// ruleHits are the counters of a rule, or of what no rule matched, that has had a hit.
type ruleHits struct {
	own    Counter
	values atomic.Pointer[values] // nil before the first value that is told apart
}

// New makes a recorder. Of a rule that tells values apart it counts so many by themselves, the rest under
// history.OtherValue; 0 counts all values as one. It is meant to be some hundreds at most.
func New(maxValues int) *Recorder {
	r := &Recorder{maxValues: maxValues}
	r.rules = byrule.New(func(of *byrule.Entry[ruleHits], rule *descriptors.Rule) {
		switch {
		case of.Domain == history.UnknownDomain: // it is counted by CountUnknownDomain
		case rule == nil:
			of.Kept.own.ratelimit = r.ratelimit.of(descriptors.MetricName(of.Domain + "." + history.Unmatched))
		default:
			of.Kept.own.ratelimit = r.ratelimit.of(rule.Metric(nil, ""))
		}
	})
	return r
}

// CountAsRatelimit has the recorder count hits as envoyproxy/ratelimit does, too, and then at least DefaultValues by
// themselves. It comes before the first hit.
func (r *Recorder) CountAsRatelimit() {
	r.ratelimit.byName, r.maxValues = make(map[string]*Ratelimit), max(r.maxValues, DefaultValues)
}

// Table finds the counters for the descriptors of one configuration. It counts into the same counters as the tables
// before and after it. Its methods may be called by any number of goroutines.
type Table struct {
	recorder *Recorder
	rules    *byrule.Table[ruleHits]
}

// Table makes the table of a configuration that is about to be put in force.
func (r *Recorder) Table(c *descriptors.Config) *Table { return &Table{r, r.rules.Table(c)} }

// Counter returns where the hits of a descriptor are counted, given the rule of the table's configuration that matches
// it, or nil if none does. It neither waits nor allocates, but for a rule that is hit, or a value that is seen, for the
// first time.
func (t *Table) Counter(rule *descriptors.Rule, domain string, d descriptors.Descriptor) *Counter {
	e, _ := t.rules.Of(rule, domain)
	if rule == nil || len(rule.Values) == 0 || t.recorder.maxValues == 0 {
		return &e.Kept.own
	}
	return t.recorder.valueCounter(&e.Kept, rule, d)
}

// CountsRefunds reports whether refunds are counted, which only envoyproxy/ratelimit does.
func (t *Table) CountsRefunds() bool { return t.recorder.ratelimit.byName != nil }

// CountUnknownDomain counts a descriptor of a domain that the configuration lacks, as envoyproxy/ratelimit does.
func (t *Table) CountUnknownDomain() {
	if t.recorder.ratelimit.byName != nil {
		t.recorder.notFound.Add(1)
	}
}

// NotFound returns how many descriptors had a domain that the configuration in force did not have.
func (r *Recorder) NotFound() uint64 { return r.notFound.Load() }

// Drain calls hand with the hits that were counted since the last call, by series of the history: each hit once. It
// forgets rules that the latest configuration does not have, some minutes after their last request.
func (r *Recorder) Drain(now time.Time, hand func(id history.ID, hits uint64)) {
	r.draining.Lock()
	defer r.draining.Unlock()
	for _, e := range r.rules.All() {
		id := history.ID{Domain: e.Domain, Path: e.Path}
		e.Kept.own.drain(id, hand)
		e.Kept.values.Load().each(func(value string, c *Counter) {
			if id.Value = value; value == "" {
				id.Value = history.OtherValue
			}
			c.drain(id, hand)
		})
	}
	r.rules.Sweep(now)
}

// Totals are all hits of a rule since it was first configured in this process. Within, Over and Degraded make the
// whole; Near is a part of Within, Shadow of Over.
type Totals struct {
	Domain, Path                         string
	Within, Over, Degraded, Near, Shadow uint64
}

// Totals returns the totals of each rule of the latest table, of those that are gone and not forgotten yet, and of what
// no rule matches in their domains and in none, in no particular order. They never go down while the rule is there.
func (r *Recorder) Totals() []Totals {
	var all []Totals
	there := make(map[byrule.Name]bool)
	for _, e := range r.rules.All() {
		there[e.Name] = true
		t := Totals{Domain: e.Domain, Path: e.Path}
		e.Kept.own.addTo(&t)
		e.Kept.values.Load().each(func(_ string, c *Counter) { c.addTo(&t) })
		all = append(all, t)
	}
	for _, name := range r.rules.Names() { // a file may have a rule named __unmatched__
		if !there[name] {
			there[name] = true
			all = append(all, Totals{Domain: name.Domain, Path: name.Path})
		}
	}
	return all
}

// Package hits counts what became of each rule's hits, and knows who takes the most. The request path pays an atomic
// add for the one, and a look into a sketch for the other; /metrics reads the totals, and the exporter of the history
// drains what has been added since it last did.
//
// A look asks and a refund gives back: neither is a hit. Only envoyproxy/ratelimit's statistics count refunds.
package hits

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

// Recorder holds the counters, by domain and path, and knows who takes the most. Its methods may be called by any
// number of goroutines.
type Recorder struct {
	// Ratelimit, if set, counts hits as envoyproxy/ratelimit does, too. Set it before the first table.
	Ratelimit *rulestats.Registry

	maxValues int
	seed      maphash.Seed
	rules     *byrule.Registry[Counter]
	top       topKeys

	draining sync.Mutex  // one drain at a time
	quota    seriesQuota // draining protects it
}

// New makes a recorder. Of a rule that tells values apart it hands out so many values of each outcome by themselves, of
// those that have the most hits; the rest is history.OtherValue. With 0 all values are one. It is meant to be some
// hundreds at most: a rule that has as many takes some 20 KB for each 100.
func New(maxValues int) *Recorder {
	r := &Recorder{maxValues: maxValues, seed: maphash.MakeSeed(),
		quota: seriesQuota{most: maxValues, known: make(map[history.ID]bool), count: make(map[history.ID]int)}}
	r.rules = byrule.New(func(e *byrule.Entry[Counter], rule *descriptors.Rule) {
		c := &e.Value
		c.rule, c.recorder = e.Name, r
		c.ratelimit = r.Ratelimit.Rule(e.Domain, rule)
	})
	return r
}

// SyncSeries tells the recorder of all series of the history that are fine, see [history.Series]. Those of values take the
// places that New allows. A value whose series is no longer fine, and that had no hit since the last call, has none.
func (r *Recorder) SyncSeries(fine []history.ID) {
	r.draining.Lock()
	defer r.draining.Unlock()
	r.quota.sync(fine)
}

// Table finds the counters for the descriptors of one configuration. It counts into the same counters as the tables
// before and after it. Its methods may be called by any number of goroutines.
type Table struct {
	*byrule.Table[Counter]
	config *descriptors.Config
}

// Table makes the table of a configuration that is about to be put in force.
func (r *Recorder) Table(c *descriptors.Config) *Table { return &Table{r.rules.Table(c), c} }

// Counter returns where the hits of a descriptor are counted, given the rule of the table's configuration that matches
// it, or nil if none does.
func (t *Table) Counter(rule *descriptors.Rule, domain string) *Counter {
	return t.At(t.config.Place(domain, rule))
}

// CountsRefunds reports whether refunds are counted, which only envoyproxy/ratelimit does.
func (r *Recorder) CountsRefunds() bool { return r.Ratelimit != nil }

// CountUnknownDomain counts a descriptor of a domain that the configuration lacks, as envoyproxy/ratelimit does.
func (r *Recorder) CountUnknownDomain() { r.Ratelimit.CountUnknownDomain() }

// Drain calls emit with the hits that were counted since the last call, by series of the history: each hit once. It
// forgets rules that the latest configuration does not have, some minutes after their last request; with a zero time none.
func (r *Recorder) Drain(now time.Time, emit func(id history.ID, hits uint64)) {
	r.draining.Lock()
	defer r.draining.Unlock()
	for _, e := range r.rules.All() {
		id := history.ID{Domain: e.Domain, Path: e.Path}
		drained := e.Value.withoutValue.drain()
		drained.handOut(id, emit)
		e.Value.values.drain(&r.quota, id, emit)
	}
	if !now.IsZero() {
		r.rules.Sweep(now)
	}
}

// Totals are all hits of a rule since it was first configured in this process. Near is a part of Within; the others make
// the whole.
type Totals struct {
	Domain, Path                         string
	Within, Over, Shadow, Degraded, Near uint64
}

// Hits returns all hits.
func (t Totals) Hits() uint64 { return t.Within + t.Over + t.Shadow + t.Degraded }

func (t *Totals) byOutcome() [history.Outcomes]*uint64 {
	return [history.Outcomes]*uint64{&t.Within, &t.Over, &t.Shadow, &t.Degraded, &t.Near}
}

// Totals returns the totals of each rule of the latest table, of those that are gone and not forgotten yet, and of what
// no rule matches in their domains and in none, in no particular order. They never go down while the rule is there.
func (r *Recorder) Totals() []Totals {
	var all []Totals
	for _, e := range r.rules.All() {
		t := Totals{Domain: e.Domain, Path: e.Path}
		e.Value.withoutValue.addTo(&t)
		e.Value.values.counters.addTo(&t)
		all = append(all, t)
	}
	return all
}

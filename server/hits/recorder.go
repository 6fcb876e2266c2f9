// Package hits counts each rule's hits by outcome, and ranks the keys with the most hits. The request path pays an
// atomic add for the counts, and a sketch update for the ranking; /metrics reads the totals, and the exporter of the
// history drains the hits since its last drain.
//
// Looks and refunds are no hits. Only envoyproxy/ratelimit's statistics count refunds.
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

// Recorder holds the counters by domain and path, and the ranking of keys. Its methods may be called by any number of
// goroutines.
type Recorder struct {
	// Ratelimit, if set, also counts hits as envoyproxy/ratelimit does. Set it before the first table.
	Ratelimit *rulestats.Registry

	maxValues int
	seed      maphash.Seed
	rules     *byrule.Registry[Counter]
	top       topKeys

	draining sync.Mutex  // one drain at a time
	quota    seriesQuota // guarded by draining
}

// New makes a recorder. For each outcome of a rule with values, Drain reports the maxValues values with the most hits
// separately, and the rest as history.OtherValue; with 0 it reports none separately. maxValues should be some hundreds
// at most: 100 take some 20 KB in such a rule.
func New(maxValues int) *Recorder {
	r := &Recorder{maxValues: maxValues, seed: maphash.MakeSeed(),
		quota: seriesQuota{perRule: maxValues, admitted: make(map[history.ID]bool), used: make(map[history.ID]int)}}
	r.rules = byrule.New(func(e *byrule.Entry[Counter], rule *descriptors.Rule) {
		c := &e.Value
		c.rule, c.recorder = e.Name, r
		c.ratelimit = r.Ratelimit.Rule(e.Domain, rule)
	})
	return r
}

// SyncSeries tells the recorder all series of the history that are fine, see [history.Series]. Series of values use up
// the quota of New. A value whose series is no longer fine, and that had no hit since the last call, frees its quota.
func (r *Recorder) SyncSeries(fine []history.ID) {
	r.draining.Lock()
	defer r.draining.Unlock()
	r.quota.sync(fine)
}

// Table finds the counters for the descriptors of one configuration. Tables share the counters of a rule. Its methods
// may be called by any number of goroutines.
type Table struct {
	*byrule.Table[Counter]
	config *descriptors.Config
}

// Table makes the table of a configuration that is about to be put in force.
func (r *Recorder) Table(c *descriptors.Config) *Table { return &Table{r.rules.Table(c), c} }

// Counter returns the counter of a descriptor's hits, given the matching rule of the table's configuration, or nil if
// none matches.
func (t *Table) Counter(rule *descriptors.Rule, domain string) *Counter {
	return t.At(t.config.RuleIndex(domain, rule))
}

// CountsRefunds reports whether refunds are counted: only envoyproxy/ratelimit's statistics do.
func (r *Recorder) CountsRefunds() bool { return r.Ratelimit != nil }

// CountUnknownDomain counts a descriptor of an unknown domain, as envoyproxy/ratelimit does.
func (r *Recorder) CountUnknownDomain() { r.Ratelimit.CountUnknownDomain() }

// Drain calls emit with the hits counted since the last call, by series of the history: each hit once. It deletes
// rules that the latest configuration lacks, some minutes after their last request; with a zero time it deletes none.
func (r *Recorder) Drain(now time.Time, emit func(id history.ID, hits uint64)) {
	r.draining.Lock()
	defer r.draining.Unlock()
	for _, e := range r.rules.All() {
		id := history.ID{Domain: e.Domain, Path: e.Path}
		drained := e.Value.withoutValue.drain()
		drained.each(id, emit)
		e.Value.values.drain(&r.quota, id, emit)
	}
	if !now.IsZero() {
		r.rules.Sweep(now)
	}
}

// Totals are all hits of a rule since it was first configured in this process. Near is a part of Within; the others
// add up to all hits.
type Totals struct {
	Domain, Path                         string
	Within, Over, Shadow, Degraded, Near uint64
}

// Hits returns all hits.
func (t Totals) Hits() uint64 { return t.Within + t.Over + t.Shadow + t.Degraded }

func (t *Totals) byOutcome() [history.Outcomes]*uint64 {
	return [history.Outcomes]*uint64{&t.Within, &t.Over, &t.Shadow, &t.Degraded, &t.Near}
}

// Totals returns the totals of each rule of the latest table, of removed ones that are not deleted yet, and of
// unmatched descriptors by domain, in no particular order. They never go down while the rule is there.
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

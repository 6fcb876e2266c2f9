package hits

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

// MaxHits is the most that one check adds; the rest is not counted. It is a tebibyte, for rules that count bytes. A
// total overflows only after 16 million such checks between two drains; stores bound the totals of a series themselves.
const MaxHits = 1 << 40

// Counter counts the hits of a rule by outcome. Its methods may be called by any number of goroutines. They block only
// while others count in the same shard of keys or values of the same rule, less than a microsecond on average, and
// allocate only for new keys and values.
//
// Each hit is within the limit, over it and refused, over it and let through, or degraded. Hits near the limit are a
// part of those within. Writers add to Within before Near, and readers read Near before Within, so that no reader sees
// more near hits than hits within.
type Counter struct {
	withoutValue counters // hits without a value, see descriptors.Rule.Values
	values       values   // hits with a value
	rule         byrule.Name
	recorder     *Recorder
	ratelimit    *rulestats.Rule // nil unless the recorder has Ratelimit
}

// counts is a number of hits for each outcome.
type counts [history.Outcomes]uint64

// counters are atomic counters of hits by outcome.
type counters struct {
	totals  [history.Outcomes]atomic.Uint64
	drained counts // the totals at the last Drain; guarded by Recorder.draining
}

// sum returns all hits.
func (n *counts) sum() (all uint64) {
	for _, hits := range n[:history.WholeOutcomes] {
		all += hits
	}
	return all
}

// overLimit returns the hits over a limit, refused or not.
func (n *counts) overLimit() uint64 { return n[history.Over] + n[history.Shadow] }

// RecordUnlimited counts hits of a descriptor without a limit; rule is nil if none matches.
func (c *Counter) RecordUnlimited(rule *descriptors.Rule, d descriptors.Descriptor, hits uint64) {
	c.count(rule, d, &counts{history.Within: min(hits, MaxHits)})
}

// Modes are the settings by which the hits of a decided check are counted.
type Modes struct {
	NearRatio float32 // the share of a limit above which hits are near it
	Shadow    bool    // the rule is in shadow mode
	Passing   bool    // hits over the limit are let through for another reason, such as a quota with room
}

// Event is a check that counts or refunds, and its decision.
type Event struct {
	Rule       *descriptors.Rule // matches the descriptor; nil if none does
	Descriptor descriptors.Descriptor
	Override   bool // the limit comes with the request
	Key        Key  // hash of the check's key
	At         time.Time
	Check      *backend.Check
	Decision   *backend.Decision
}

// Record counts the hits of a check. Refunds are counted only for envoyproxy/ratelimit's statistics.
func (c *Counter) Record(e *Event, modes Modes) {
	check, d, ratelimit := e.Check, e.Decision, c.ratelimit.Counters(e.Rule, e.Descriptor, e.Override)
	if check.Op == backend.Refund {
		ratelimit.Add(rulestats.TotalNegativeHits, check.Hits)
		return
	}
	var n counts
	if d.Err != nil || d.Source.Degraded() {
		n[history.Degraded] = min(check.Hits, MaxHits)
		ratelimit.Add(rulestats.TotalHits, check.Hits)
		c.record(e, &n)
		return
	}
	fit, near := split(check, d, modes.NearRatio)
	beyond := history.Over
	if modes.Shadow || modes.Passing {
		beyond = history.Shadow
	}
	n[history.Within], n[history.Near], n[beyond] = min(fit, MaxHits), min(near, MaxHits), min(check.Hits-fit, MaxHits)
	c.record(e, &n)
	ratelimit.Count(check, d, fit, near, modes.Shadow)
}

// record counts hits for the rule, and for the key in the ranking.
func (c *Counter) record(e *Event, n *counts) {
	c.count(e.Rule, e.Descriptor, n)
	c.recorder.top.count(&c.rule, e, n)
}

// count counts hits for the rule, and for their value if the rule has values.
func (c *Counter) count(rule *descriptors.Rule, d descriptors.Descriptor, n *counts) {
	if rule == nil || len(rule.Values) == 0 || c.recorder.maxValues == 0 {
		c.withoutValue.add(n)
		return
	}
	c.values.count(c.recorder, rule, d, n)
}

func (c *counters) add(n *counts) {
	for o, hits := range n { // Near comes last, after Within
		if hits > 0 {
			c.totals[o].Add(hits)
		}
	}
}

// split returns how many hits of a check fit, and how many of those are above a share of the limit. A check that charges
// even if it is denied may straddle the limit: then only the hits that had room fit.
func split(check *backend.Check, d *backend.Decision, share float32) (fit, near uint64) {
	limit := &check.Limits[d.Strictest]
	requests := limit.Capacity()
	switch {
	case d.Allowed:
		fit = check.Hits
	case check.Charge.Always(limit) && d.Source != backend.FromDenyCache:
		fit = min(check.Hits, requests-min(requests, d.Before))
	}
	least := uint64(float32(requests) * share) // rounded down as envoyproxy/ratelimit does, in 32 bits
	after := d.Before + fit
	return fit, min(fit, after-min(after, least))
}

// drain returns the hits since the last drain.
func (c *counters) drain() (n counts) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		total := c.totals[o].Load()
		n[o], c.drained[o] = total-c.drained[o], total
	}
	return n
}

// each calls emit with the hits of each outcome that has any.
func (n *counts) each(id history.ID, emit func(history.ID, uint64)) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		if n[o] > 0 {
			id.Outcome = history.Outcome(o)
			emit(id, n[o])
		}
	}
}

// addTo adds the counts to a rule's totals.
func (c *counters) addTo(t *Totals) {
	totals := t.byOutcome()
	for o := history.Outcomes - 1; o >= 0; o-- {
		*totals[o] += c.totals[o].Load()
	}
}

package hits

import (
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

// MaxHits is the most that one check adds; of more, the rest is not counted. It is a tebibyte, for rules that count
// bytes. 16 million such checks fit between two drains before a difference could wrap, and stores bound a series'
// lifetime themselves.
const MaxHits = 1 << 40

// Counter counts the hits of a rule by what became of them. Its methods may be called by any number of goroutines. They
// wait only for others that count in the same shard of keys or the same rule's values, less than a microsecond on
// average, and allocate only for keys and values that are new.
//
// Hits within the limit, over it and degraded add up to all hits. Those that were near the limit are a part of the
// first, those that shadow mode let through a part of the second; the whole is added before its part, and read after
// it, so that no reader sees a part that is larger than its whole.
type Counter struct {
	own       tally // of hits whose values are not told apart
	perValue  tally // of all others
	values    values
	rule      byrule.Name
	recorder  *Recorder
	ratelimit *ratelimitCounters // nil unless the recorder counts as envoyproxy/ratelimit does
	byValue   *byValue           // likewise
}

// counts are hits by outcome.
type counts [history.Outcomes]uint64

// tally counts hits by outcome.
type tally struct {
	totals  [history.Outcomes]atomic.Uint64
	drained counts // of these, handed out by Drain; Recorder.draining protects it
}

// all returns the hits: near and shadow are among the others.
func (n *counts) all() uint64 { return n[history.Within] + n[history.Over] + n[history.Degraded] }

// Pass counts hits of a descriptor, which pass without a limit; rule is nil if none matches.
func (c *Counter) Pass(rule *descriptors.Rule, d descriptors.Descriptor, hits uint64) {
	c.count(rule, d, &counts{history.Within: min(hits, MaxHits)})
}

// Modes are the limiter's shadow modes, and when a hit is near its limit.
type Modes struct {
	Near      float32 // the share of a limit above which hits are near it
	Shadow    bool    // the rule is in shadow mode
	ShadowAll bool    // everything is
}

// Hit is a check that counts or gives back, and what was decided about it.
type Hit struct {
	Rule       *descriptors.Rule // that matches the descriptor, nil if none does
	Descriptor descriptors.Descriptor
	Key        Key // of the check
	At         time.Time
	Check      *backend.Check
	Decision   *backend.Decision
}

// Record counts a hit.
func (c *Counter) Record(h *Hit, m Modes) {
	check, d, as := h.Check, h.Decision, c.ratelimitOf(h)
	if check.Op == backend.Refund {
		as.add(TotalNegativeHits, check.Hits)
		return
	}
	var n counts
	if d.Err != nil || d.Source.Degraded() {
		n[history.Degraded] = min(check.Hits, MaxHits)
		as.add(TotalHits, check.Hits)
		c.record(h, &n)
		return
	}
	fit, near := split(check, d, m.Near)
	over := check.Hits - fit
	n[history.Within], n[history.Near], n[history.Over] = min(fit, MaxHits), min(near, MaxHits), min(over, MaxHits)
	if m.Shadow || m.ShadowAll {
		n[history.Shadow] = n[history.Over]
	}
	c.record(h, &n)
	as.count(check, d, fit, near, m.Shadow)
}

// record counts hits for the rule, and for the key that took them.
func (c *Counter) record(h *Hit, n *counts) {
	c.count(h.Rule, h.Descriptor, n)
	c.recorder.top.note(&c.rule, h, n)
}

// count counts hits for the rule, and for their value where it is told apart.
func (c *Counter) count(rule *descriptors.Rule, d descriptors.Descriptor, n *counts) {
	if rule == nil || len(rule.Values) == 0 || c.recorder.maxValues == 0 {
		c.own.add(n)
		return
	}
	c.values.count(c, rule, d, n)
}

func (t *tally) add(n *counts) {
	for o, hits := range n { // the parts are last
		if hits > 0 {
			t.totals[o].Add(hits)
		}
	}
}

// split returns how many hits of a check fit, and how many of these are above a share of the limit. A charge that is
// made whatever is decided may straddle the limit: what it took of the room that was there fits.
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

// undrained returns what has been counted since it was last asked.
func (t *tally) undrained() (n counts) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		total := t.totals[o].Load()
		n[o], t.drained[o] = total-t.drained[o], total
	}
	return n
}

// emit calls emit with the hits of each outcome that has some.
func (n *counts) emit(id history.ID, emit func(history.ID, uint64)) {
	for o := history.Outcomes - 1; o >= 0; o-- {
		if n[o] > 0 {
			id.Outcome = history.Outcome(o)
			emit(id, n[o])
		}
	}
}

// addTo adds the totals to all.
func (t *tally) addTo(all *Totals) {
	all.Shadow += t.totals[history.Shadow].Load()
	all.Near += t.totals[history.Near].Load()
	all.Degraded += t.totals[history.Degraded].Load()
	all.Over += t.totals[history.Over].Load()
	all.Within += t.totals[history.Within].Load()
}

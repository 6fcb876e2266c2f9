package hits

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits/heavy"
)

// values counts the hits of a rule with values: all of them, and by outcome those of its heaviest values since the last drain.
type values struct {
	counters counters
	mu       sync.Mutex // guards heavy; counts enter counters and heavy under one lock, for drain
	heavy    valueSketches
	drained  valueSketches // swapped with heavy by a drain, which reads it without the lock
}

type valueSketches [history.WholeOutcomes]*heavy.Sketch[value] // nil before the first hit of that outcome

// value is a value in a sketch, with its hits since it entered.
type value struct {
	text       []byte
	hits, near uint64 // near is part of the hits within, so no value has more near hits than hits
}

// count counts hits of the rule, and of the value of a descriptor.
func (v *values) count(r *Recorder, rule *descriptors.Rule, d descriptors.Descriptor, n *counts) {
	var room [descriptors.MaxValue]byte
	text := rule.AppendValue(room[:0], d)
	key := maphash.Bytes(r.seed, text)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counters.add(n)
	for o := range v.heavy {
		if n[o] == 0 || len(text) == 0 {
			continue
		}
		if v.heavy[o] == nil {
			v.heavy[o] = heavy.New[value](r.maxValues)
		}
		held, fresh := v.heavy[o].Add(key, n[o])
		if fresh {
			*held = value{text: append(held.text[:0], text...)}
		}
		held.hits += n[o]
		if history.Outcome(o) == history.Within {
			held.near += n[history.Near]
		}
	}
}

// drain calls emit with what was counted since the last drain: hits of a value that has a series, or gets one now,
// under the value, the rest under history.OtherValue.
func (v *values) drain(quota *seriesQuota, id history.ID, emit func(history.ID, uint64)) {
	v.mu.Lock()
	rest := v.counters.drain()
	v.heavy, v.drained = v.drained, v.heavy
	v.mu.Unlock()
	for o, sketch := range v.drained {
		if sketch == nil {
			continue
		}
		all := rest[o]
		held := sketch.Held()
		slices.SortFunc(held, func(a, b heavy.Held[value]) int { return cmp.Compare(b.Value.hits, a.Value.hits) })
		for i := range held {
			kept := &held[i].Value
			id.Outcome, id.Value = history.Outcome(o), string(kept.text)
			if !quota.tryAdmit(id, kept.hits, all) {
				continue
			}
			n := counts{history.Near: kept.near}
			n[o] = kept.hits
			rest[o] -= kept.hits
			rest[history.Near] -= kept.near
			n.each(id, emit)
		}
		sketch.Reset()
	}
	id.Value = history.OtherValue
	rest.each(id, emit)
}

// Reserved places are for values with more than reservedHits hits and more than 1/reservedShare of a drain's hits: a
// client that sends many values cannot take them all.
const reservedShare, reservedHits = 50, 10

// seriesQuota decides which values have series: those in the history, and those drained since, which the history may
// not list yet. If two weirs give one place to two values between two syncs, the next place that becomes free stays
// empty. Near hits share the place of hits within. Recorder.draining guards it.
type seriesQuota struct {
	places int                 // places of a rule and outcome, without the reserved ones
	known  map[history.ID]bool // whether it was drained since the last sync
	count  map[history.ID]int  // places taken, by rule and outcome
}

// sync gives the places to the series in the history, and to those drained since the last sync.
func (p *seriesQuota) sync(fine []history.ID) {
	before := p.known
	p.known, p.count = make(map[history.ID]bool), make(map[history.ID]int)
	for id, handedOut := range before {
		if handedOut {
			p.admit(id, false)
		}
	}
	for _, id := range fine {
		if id.Outcome == history.Near {
			id.Outcome = history.Within
		}
		if history.IsPersonal(id.Value) {
			p.admit(id, false)
		}
	}
}

// admit gives a value a place, unless it has one.
func (p *seriesQuota) admit(id history.ID, handedOut bool) {
	_, known := p.known[id]
	p.known[id] = handedOut
	if id.Value = ""; !known {
		p.count[id]++
	}
}

// tryAdmit reports whether a value with these hits has a place. Any value gets a free one. An extra quarter is
// reserved for heavy values that come when the others are taken.
func (p *seriesQuota) tryAdmit(id history.ID, hits, all uint64) bool {
	of := id
	of.Value = ""
	used := p.count[of]
	_, known := p.known[id]
	reserved := used < p.places+p.places/4 && hits > max(all/reservedShare, reservedHits)
	if !known && used >= p.places && !reserved {
		return false
	}
	p.admit(id, true)
	return true
}

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

// values count the hits of a rule that tells values apart: all of them, and by outcome those of its heaviest values since
// the last drain.
type values struct {
	counters counters
	mu       sync.Mutex // protects heavy, and lets a drain find in it no more than in counters
	heavy    valueSketches
	drained  valueSketches // swapped with heavy by a drain, which reads them without the lock
}

type valueSketches [history.WholeOutcomes]*heavy.Sketch[value] // nil before the first hit of that outcome

// value is a value in a sketch, with its hits since it came there.
type value struct {
	text       []byte
	hits, near uint64 // near of those within: so no value has more near hits than hits
}

// count counts hits, and those of the value of a descriptor.
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

// drain hands out what was counted since the last drain: under its value what is known of a value that has a series, or
// gets one now, the rest under history.OtherValue.
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
		slices.SortFunc(held, func(a, b heavy.Held[value]) int { return cmp.Compare(b.Kept.hits, a.Kept.hits) })
		for i := range held {
			kept := &held[i].Kept
			id.Outcome, id.Value = history.Outcome(o), string(kept.text)
			if !quota.tryAdmit(id, kept.hits, all) {
				continue
			}
			n := counts{history.Near: kept.near}
			n[o] = kept.hits
			rest[o] -= kept.hits
			rest[history.Near] -= kept.near
			n.handOut(id, emit)
		}
		sketch.Reset()
	}
	id.Value = history.OtherValue
	rest.handOut(id, emit)
}

// reservedShare and reservedHits are which part of a drain's hits, a fiftieth, and how many of them a value must exceed for
// a reserved place: whoever sends many values gets no more than the others.
const reservedShare, reservedHits = 50, 10

// seriesQuota has the values that have a place, and so a series: those that the history tells of, and those handed out since,
// of which it may not know yet. Near hits have the place of those within. Recorder.draining protects it.
type seriesQuota struct {
	most  int                 // of a rule and outcome, without the reserved ones
	known map[history.ID]bool // whether it was handed out since the last sync
	count map[history.ID]int  // of all values of a rule and outcome
}

// sync gives the places to the series of the history, and to those handed out since the last time.
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

// admit gives a value a place, if it has none.
func (p *seriesQuota) admit(id history.ID, handedOut bool) {
	_, known := p.known[id]
	p.known[id] = handedOut
	if id.Value = ""; !known {
		p.count[id]++
	}
}

// tryAdmit reports whether a value of so many hits has a place. Any value gets one that is free. A quarter as many are
// reserved for the heavy values that come once the others are taken.
func (p *seriesQuota) tryAdmit(id history.ID, hits, all uint64) bool {
	of := id
	of.Value = ""
	used := p.count[of]
	_, known := p.known[id]
	reserved := used < p.most+p.most/4 && hits > max(all/reservedShare, reservedHits)
	if !known && used >= p.most && !reserved {
		return false
	}
	p.admit(id, true)
	return true
}

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
		val, fresh := v.heavy[o].Add(key, n[o])
		if fresh {
			*val = value{text: append(val.text[:0], text...)}
		}
		val.hits += n[o]
		if history.Outcome(o) == history.Within {
			val.near += n[history.Near]
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
		entries := sketch.Entries()
		slices.SortFunc(entries, func(a, b heavy.Entry[value]) int { return cmp.Compare(b.Value.hits, a.Value.hits) })
		for i := range entries {
			val := &entries[i].Value
			id.Outcome, id.Value = history.Outcome(o), string(val.text)
			if !quota.tryAdmit(id, val.hits, all) {
				continue
			}
			n := counts{history.Near: val.near}
			n[o] = val.hits
			rest[o] -= val.hits
			rest[history.Near] -= val.near
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
// not list yet. Near hits share the place of hits within. Recorder.draining guards it.
type seriesQuota struct {
	perRule  int                 // places of a rule and outcome, without the reserved ones
	admitted map[history.ID]bool // whether it was drained since the last sync
	used     map[history.ID]int  // places taken, by rule and outcome
}

// sync gives the places to the series in the history, and to those drained since the last sync.
func (q *seriesQuota) sync(fine []history.ID) {
	previous := q.admitted
	q.admitted, q.used = make(map[history.ID]bool), make(map[history.ID]int)
	for id, drained := range previous {
		if drained {
			q.admit(id, false)
		}
	}
	for _, id := range fine {
		if id.Outcome == history.Near {
			id.Outcome = history.Within
		}
		if history.IsPersonal(id.Value) {
			q.admit(id, false)
		}
	}
}

// admit gives a value a place, unless it has one.
func (q *seriesQuota) admit(id history.ID, drained bool) {
	_, exists := q.admitted[id]
	q.admitted[id] = drained
	if id.Value = ""; !exists {
		q.used[id]++
	}
}

// tryAdmit reports whether a value with these hits has a place. Any value gets a free one. An extra quarter is
// reserved for heavy values that come when the others are taken.
func (q *seriesQuota) tryAdmit(id history.ID, hits, all uint64) bool {
	group := id
	group.Value = ""
	used := q.used[group]
	_, exists := q.admitted[id]
	reserved := used < q.perRule+q.perRule/4 && hits > max(all/reservedShare, reservedHits)
	if !exists && used >= q.perRule && !reserved {
		return false
	}
	q.admit(id, true)
	return true
}

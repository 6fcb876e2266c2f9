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

// values counts all hits of a rule with values and, by outcome, those of its heaviest values since the last drain.
type values struct {
	counters counters
	mu       sync.Mutex // guards heavy, and makes each update of counters and heavy one for drain
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

// drain calls emit with the hits since the last drain: under their value if that has a series or gets one now, else
// under history.OtherValue.
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

// A quarter more series than the quota is reserved for values with more than reservedHits hits and more than
// 1/reservedShare of a drain's hits: a client that sends many values cannot use them all up.
const reservedShare, reservedHits = 50, 10

// seriesQuota decides which values have series: those in the history, and those drained since, which the history may
// not list yet. If two weirs admit two values for the same free series between two syncs, the next series that becomes
// free stays unused. A value's near hits count as hits within here. Recorder.draining guards it.
type seriesQuota struct {
	perRule  int                 // series of values of a rule and outcome, without the reserved ones
	admitted map[history.ID]bool // values with a series; true: drained since the last sync
	used     map[history.ID]int  // series by rule and outcome
}

// sync admits the series in the history, and those drained since the last sync, and no others.
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

// admit counts a value's series, unless it is counted already.
func (q *seriesQuota) admit(id history.ID, drained bool) {
	_, exists := q.admitted[id]
	q.admitted[id] = drained
	if id.Value = ""; !exists {
		q.used[id]++
	}
}

// tryAdmit returns true if a value has a series, or gets one now: any value while the quota lasts, then only a heavy
// one, while the reserve lasts.
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

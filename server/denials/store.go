package denials

import (
	"slices"
	"time"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/byrule"
)

// Store calls put with the recent denials of the minutes that ended before a moment, oldest first, as Recent returns
// them with values. If put fails, the next call of Store has the same denials again. Only one goroutine at a time may
// call it.
func (r *Recorder) Store(before time.Time, put func([]Summary) error) error {
	var groups []*group
	var all []Summary
	recent, _ := r.recent.snapshot()
	for _, g := range recent {
		if !g.stored && (g.minute+1)*60 <= before.Unix() {
			s := g.summary(true)
			s.Weir = r.Weir
			groups, all = append(groups, g), append(all, s)
		}
	}
	err := put(all)
	for _, g := range groups {
		g.stored = err == nil
	}
	return err
}

// Restore adds stored denials, oldest first, before all recent ones. It must not run at the same time as Store.
func (r *Recorder) Restore(all []Summary) {
	type origin struct {
		weir   string
		rule   byrule.Name
		shadow bool
	}
	tallies, groups := make(map[origin]*ruleTally), make([]*group, 0, len(all))
	for i := range all {
		s := &all[i]
		key := origin{s.Weir, byrule.Name{Domain: s.Domain, Path: s.Path}, s.Shadow}
		if tallies[key] == nil {
			tallies[key] = &ruleTally{rule: key.rule, shadow: key.shadow, weir: key.weir}
		}
		g := &group{rule: tallies[key], minute: s.First.Unix() / 60, stored: true}
		if d, err := descriptors.ParseDescriptor(s.Descriptor); err == nil {
			g.entries = r.recent.hashes(nil, d)
		}
		g.hash = r.recent.groupHash(g.rule, &s.Last, g.minute, g.entries)
		g.first.Store(s.First.UnixNano())
		g.requests.Store(s.Requests)
		g.hits.Store(s.Hits)
		g.last.Store(&lastDenial{s.Last, s.Descriptor})
		groups = append(groups, g)
	}
	r.recent.mu.Lock()
	defer r.recent.mu.Unlock()
	groups = append(groups, r.recent.ordered()...)
	r.recent.ring, r.recent.next = [slots]*group{}, 0
	clear(r.recent.byHash)
	for _, g := range groups {
		r.recent.insert(g)
	}
}

// snapshot returns the groups, ordered by their first denial, and completeSince.
func (r *recent) snapshot() (all []*group, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ordered(), r.completeSince
}

// ordered is snapshot for callers that hold the lock.
func (r *recent) ordered() []*group {
	at := r.next % slots
	return slices.DeleteFunc(slices.Concat(r.ring[at:], r.ring[:at]), func(g *group) bool { return g == nil })
}

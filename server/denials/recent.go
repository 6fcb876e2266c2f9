package denials

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// The ring has at most 8,192 groups, in 3 MiB: a group takes a slot for every 384 bytes. The map takes some 300 KiB.
const (
	slots      = 8 << 10
	slotBytes  = 384
	groupBytes = 240 // of a group without its descriptor
)

// recent has the newest groups, ordered by their first denial.
type recent struct {
	seed maphash.Seed

	mu            sync.Mutex // guards the fields below; a request holds it for a fraction of a microsecond
	next          uint64     // the next slot of the ring, modulo slots
	ring          [slots]*group
	byHash        map[uint64]*group // the groups in the ring, the newest of each hash
	completeSince time.Time         // all denials since then are in the ring
}

// group holds the denials of one descriptor by one limit of a rule within a minute of the clock.
type group struct {
	tally
	rule    *ruleTally
	minute  int64
	hash    uint64
	entries []uint64     // the hash of each entry, to find descriptors that were cut
	stored  bool         // only Store uses it
	first   atomic.Int64 // Unix nanoseconds
}

// add adds a denial to its group, or begins one. A key that is denied all the time takes one group a minute.
func (r *recent) add(rule *ruleTally, d *Denial, descriptor descriptors.Descriptor) {
	var room [8]uint64
	entries, minute, at := r.hashes(room[:0], descriptor), d.At.Unix()/60, d.At.UnixNano()
	hash := r.groupHash(rule, d, minute, entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.byHash[hash]
	if g == nil || g.rule != rule || g.minute != minute || g.last.Load().Limit != d.Limit {
		g = &group{rule: rule, minute: minute, hash: hash, entries: slices.Clone(entries)}
		g.first.Store(at)
		g.add(d, descriptor)
		r.insert(g)
		return
	}
	g.first.Store(min(g.first.Load(), at))
	g.add(d, descriptor)
}

// groupHash returns the hash of a denial's group. Denials by the store and by the deny cache share a group.
func (r *recent) groupHash(rule *ruleTally, d *Denial, minute int64, entries []uint64) uint64 {
	source := max(d.Source, backend.FromLook)
	hash := maphash.Comparable(r.seed, rule) ^ d.Limit.Requests ^ uint64(d.Limit.Window) ^ uint64(minute)<<8 ^ uint64(source)
	for _, entry := range entries {
		hash = (hash ^ entry) * 0x9e3779b97f4a7c15
	}
	return hash
}

// insert puts a group into the next slots of the ring, and evicts the groups that were there.
func (r *recent) insert(g *group) {
	r.byHash[g.hash] = g
	size := (groupBytes + len(g.last.Load().descriptor) + 8*len(g.entries) + slotBytes - 1) / slotBytes
	for range size {
		slot := &r.ring[r.next%slots]
		if old := *slot; old != nil {
			if r.byHash[old.hash] == old {
				delete(r.byHash, old.hash)
			}
			if evicted := old.last.Load().At.Add(maxLag); evicted.After(r.completeSince) {
				r.completeSince = evicted
			}
		}
		*slot, g = g, nil // the other slots are empty
		r.next++
	}
}

// hashes appends the hash of each entry of a descriptor.
func (r *recent) hashes(dst []uint64, descriptor descriptors.Descriptor) []uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for i := range descriptor {
		h.Reset()
		h.WriteString(descriptor[i].Key)
		h.WriteByte('=')
		h.WriteString(descriptor[i].Value)
		dst = append(dst, h.Sum64())
	}
	return dst
}

// lineKey identifies a line of an answer without descriptors.
type lineKey struct {
	rule   *ruleTally
	minute int64
	limit  descriptors.Limit
	source backend.Source
}

// Recent returns up to n groups of recent denials that match a filter: those of one minute, limit and, if values are
// requested, descriptor. The groups are ordered by their first denials, newest first. more is how many further groups
// match. Only denials before since may be missing; it is zero if none was evicted.
func (r *Recorder) Recent(f Filter, n int) (all []Summary, more int, since time.Time) {
	wanted := r.recent.hashes(nil, f.Descriptor)
	groups, since := r.recent.snapshot()
	lines := make(map[lineKey]int)
	for _, g := range slices.Backward(groups) {
		missing := func(entry uint64) bool { return !slices.Contains(g.entries, entry) }
		if !f.matches(g.rule.rule) || slices.ContainsFunc(wanted, missing) {
			continue
		}
		s := g.summary(f.Values)
		before := g.minute < f.From.Unix()/60 || !s.Last.At.Add(maxLag).After(f.From)
		if before || !f.To.IsZero() && !s.First.Before(f.To) {
			continue
		}
		if !f.Values {
			key := lineKey{g.rule, g.minute, s.Last.Limit, max(s.Last.Source, backend.FromLook)}
			if i, listed := lines[key]; listed {
				if i < n {
					all[i].merge(&s)
				}
				continue
			}
			lines[key] = len(lines)
		}
		if len(all) < n {
			all = append(all, s)
		} else {
			more++
		}
	}
	return all, more, since
}

// summary returns the group as a summary.
func (g *group) summary(values bool) Summary {
	s, _ := g.rule.summary(&g.tally, values)
	s.First, s.Descriptors, s.Weir = time.Unix(0, g.first.Load()), 1, g.rule.weir
	return s
}

// merge adds the denials of another descriptor.
func (s *Summary) merge(other *Summary) {
	if other.Last.At.After(s.Last.At) {
		s.Last = other.Last
	}
	if other.First.Before(s.First) {
		s.First = other.First
	}
	s.Requests, s.Hits, s.Descriptors = s.Requests+other.Requests, s.Hits+other.Hits, s.Descriptors+other.Descriptors
}

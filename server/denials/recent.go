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

// At most 8,192 streaks are kept, in 3 MiB: each takes a place for every 384 bytes. Their map takes some 300 KiB.
const (
	places      = 8 << 10
	placeBytes  = 384
	streakBytes = 240 // of one without its descriptor
)

// recent keeps the newest streaks, in the order in which they began.
type recent struct {
	seed maphash.Seed

	mu    sync.Mutex // protects what follows; a request holds it for a fraction of a microsecond
	next  uint64
	ring  [places]*streak    // a ring
	open  map[uint64]*streak // those that are kept, by their hash
	since time.Time          // every denial from then on is kept
}

// streak is the denials of one descriptor by one limit of a rule within a minute of the clock.
type streak struct {
	tally
	rule    *ruleTally
	minute  int64
	hash    uint64
	entries []uint64     // the hash of each, by which a descriptor is found that is longer than what is kept of it
	first   atomic.Int64 // Unix nanoseconds
}

// note adds a denial to its streak, or begins one. So a key that is denied all the time takes the room of one denial.
func (r *recent) note(s *ruleTally, d *Denial, descriptor descriptors.Descriptor) {
	var room [8]uint64
	entries, minute, at := r.hashes(room[:0], descriptor), d.At.Unix()/60, d.At.UnixNano()
	decidedBy := max(d.Source, backend.FromLook) // one streak for the store and for what remembers its denials
	hash := maphash.Comparable(r.seed, s) ^ d.Limit.Requests ^ uint64(d.Limit.Window) ^ uint64(minute)<<8
	hash ^= uint64(decidedBy)
	for _, entry := range entries {
		hash = (hash ^ entry) * 0x9e3779b97f4a7c15
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.open[hash]
	if begins := k == nil || k.rule != s || k.minute != minute || k.last.Load().Limit != d.Limit; begins {
		k = &streak{rule: s, minute: minute, hash: hash, entries: slices.Clone(entries)}
		k.first.Store(at)
		k.note(d, descriptor)
		r.keep(k)
		return
	}
	k.first.Store(min(k.first.Load(), at))
	k.note(d, descriptor)
}

// keep gives a streak its places in the ring, and forgets the streaks that had them.
func (r *recent) keep(k *streak) {
	r.open[k.hash] = k
	size := (streakBytes + len(k.last.Load().descriptor) + 8*len(k.entries) + placeBytes - 1) / placeBytes
	for range size {
		place := &r.ring[r.next%places]
		if old := *place; old != nil {
			if r.open[old.hash] == old {
				delete(r.open, old.hash)
			}
			if since := old.last.Load().At.Add(keepInterval); since.After(r.since) {
				r.since = since
			}
		}
		*place, k = k, nil // the other places are empty
		r.next++
	}
}

func (r *recent) hashes(to []uint64, descriptor descriptors.Descriptor) []uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for i := range descriptor {
		h.Reset()
		h.WriteString(descriptor[i].Key)
		h.WriteByte('=')
		h.WriteString(descriptor[i].Value)
		to = append(to, h.Sum64())
	}
	return to
}

// Recent returns up to n recent denials that a filter matches, by minute, limit and descriptor, the latest begun first;
// how many more there are; and since when all are kept, zero if none is forgotten.
func (r *Recorder) Recent(q Filter, n int) (all []Summary, more int, since time.Time) {
	wanted := r.recent.hashes(nil, q.Descriptor)
	r.recent.mu.Lock()
	ring, next, since := slices.Clone(r.recent.ring[:]), r.recent.next, r.recent.since
	r.recent.mu.Unlock()
	for i := range uint64(places) {
		k := ring[(next-1-i)%places]
		missing := func(entry uint64) bool { return !slices.Contains(k.entries, entry) }
		if k == nil || !q.matches(k.rule.name) || slices.ContainsFunc(wanted, missing) {
			continue
		}
		kept, _ := k.rule.summary(&k.tally, q.Values)
		kept.First = time.Unix(0, k.first.Load())
		switch {
		case !q.To.IsZero() && !kept.First.Before(q.To), k.minute < q.From.Unix()/60, !kept.Last.At.Add(keepInterval).After(q.From):
		case len(all) < n:
			all = append(all, kept)
		default:
			more++
		}
	}
	return all, more, since
}

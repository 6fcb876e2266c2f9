package denials

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/descriptors"
)

// What is kept of late is at most 8,192 streaks in 3 MiB, as each takes a place for every 384 bytes. Tables take 192
// KiB.
const (
	places      = 8 << 10
	placeBytes  = 384
	streakBytes = 240 // of one without its descriptor
	openCells   = 16 << 10
	probes      = 8
)

// recent keeps the newest streaks, in the order in which they began. Who adds a denial waits for nobody.
type recent struct {
	seed  maphash.Seed
	next  atomic.Uint64
	kept  [places]atomic.Pointer[streak]    // a ring
	open  [openCells]atomic.Pointer[streak] // of this minute and the last, each in one of eight cells from its hash on
	since atomic.Int64                      // Unix nanoseconds: every denial from then on is kept
}

// streak is the denials of one descriptor by one limit of a rule within a minute of the clock.
type streak struct {
	denied
	of      *slot
	minute  int64
	hash    uint64       // of the descriptor, and of who decided
	entries []uint64     // the hash of each, by which a descriptor is found that is longer than what is kept of it
	first   atomic.Int64 // Unix nanoseconds
	cell    *atomic.Pointer[streak]
	gone    atomic.Bool // no longer kept
}

// note adds a denial to its streak, or begins one: a key that is denied thousands of times a second takes the room of
// one.
func (r *recent) note(s *slot, d *Denial, of descriptors.Descriptor) {
	var room [8]uint64
	entries, minute := r.hashes(room[:0], of), d.At.Unix()/60
	hash := uint64(max(d.Source, backend.FromLook)) // a store's denials are of one streak, whoever remembers them
	for _, entry := range entries {
		hash = (hash ^ entry) * 0x9e3779b97f4a7c15
	}
	for {
		var cell *atomic.Pointer[streak]
		var before *streak
		free := false
		for i := range uint64(probes) {
			c := &r.open[(hash+i)%openCells]
			k := c.Load()
			if k != nil && k.hash == hash && k.minute == minute && k.of == s && k.last.Load().Limit == d.Limit && k.add(d, of) {
				return
			}
			// Of eight that are all in use the first has to end: that many at once push each other out of the ring
			// anyway.
			if over := k == nil || k.minute < minute-1 || k.minute > minute+1; i == 0 || over && !free {
				cell, before, free = c, k, over
			}
		}
		k := &streak{of: s, minute: minute, hash: hash, entries: slices.Clone(entries), cell: cell}
		k.first.Store(d.At.UnixNano())
		k.denied.note(d, of)
		if cell.CompareAndSwap(before, k) {
			r.keep(k)
			return
		}
	}
}

// add adds a denial, and reports whether it is kept by that.
func (k *streak) add(d *Denial, of descriptors.Descriptor) bool {
	at := d.At.UnixNano()
	for first := k.first.Load(); at < first && !k.first.CompareAndSwap(first, at); first = k.first.Load() {
	}
	k.note(d, of)
	return !k.gone.Load()
}

// keep gives a streak its places in the ring, and forgets those that had them.
func (r *recent) keep(k *streak) {
	size := uint64(streakBytes+len(k.last.Load().descriptor)+8*len(k.entries)+placeBytes-1) / placeBytes
	for end := r.next.Add(size); size > 0; size-- {
		old := r.kept[(end-size)%places].Swap(k)
		k = nil // the other places are empty
		if old == nil {
			continue
		}
		old.cell.CompareAndSwap(old, nil)
		old.gone.Store(true) // whoever adds to it from now on finds that it is lost; what was added before is before since:
		since := old.last.Load().At.Add(keepEvery).UnixNano()
		for now := r.since.Load(); since > now && !r.since.CompareAndSwap(now, since); now = r.since.Load() {
		}
	}
}

// hashes appends a hash of each entry of a descriptor.
func (r *recent) hashes(to []uint64, of descriptors.Descriptor) []uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	for i := range of {
		h.Reset()
		h.WriteString(of[i].Key)
		h.WriteByte('=')
		h.WriteString(of[i].Value)
		to = append(to, h.Sum64())
	}
	return to
}

// Recent returns what was denied of late that a question means: for each minute, limit and descriptor what List
// returns for a rule, those that began last first, at most n. It counts the others, and returns since when all
// denials are kept; zero if none is forgotten.
func (r *Recorder) Recent(q Question, n int) (all []Kept, more int, since time.Time) {
	asked := r.recent.hashes(nil, q.Descriptor)
	for next, i := r.recent.next.Load(), uint64(1); i <= places; i++ {
		k := r.recent.kept[(next-i)%places].Load()
		lacked := func(entry uint64) bool { return !slices.Contains(k.entries, entry) }
		if k == nil || !q.means(k.of.rule) || slices.ContainsFunc(asked, lacked) {
			continue
		}
		kept, _ := k.of.kept(&k.denied, q.Values)
		kept.First = time.Unix(0, k.first.Load())
		switch {
		case !q.To.IsZero() && !kept.First.Before(q.To), k.minute < q.From.Unix()/60, !kept.Last.At.Add(keepEvery).After(q.From):
		case len(all) < n:
			all = append(all, kept)
		default:
			more++
		}
	}
	if forgotten := r.recent.since.Load(); forgotten > 0 { // after all were read: what was forgotten meanwhile is before it
		since = time.Unix(0, forgotten)
	}
	return all, more, since
}

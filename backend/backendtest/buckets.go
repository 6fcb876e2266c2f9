package backendtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Buckets counts the hits of one limit of one key as the definition of a window or a log says: in the finest buckets,
// each of which counts whole until all of it is out. Those of a log are a microsecond wide. It adds up anew whenever it
// is asked: it is slow and plain, and the oracle of every store.
type Buckets struct {
	width, after window.Instant   // of a bucket, and for how long it counts once it is over
	hits         map[int64]uint64 // by bucket number

	at     int64            // the bucket that was last counted in
	leased map[int64]uint64 // of the hits: granted by leases, and not settled
}

// NewBuckets returns the empty state of a limit.
func NewBuckets(l *descriptors.Limit) *Buckets {
	b := &Buckets{width: micros(l.Levels()[0]), hits: make(map[int64]uint64), leased: make(map[int64]uint64)}
	switch l.Algorithm {
	case descriptors.SlidingWindow:
		b.after = micros(l.Window)
	case descriptors.SlidingLog: // from the instant of the hit on, which is the beginning of its bucket
		b.after = micros(l.Window) - b.width
	}
	return b
}

func micros(d time.Duration) window.Instant { return window.Instant(d.Microseconds()) }

// index returns the number of the bucket that holds t; buckets are aligned to the epoch.
func (b *Buckets) index(t window.Instant) int64 {
	k := t / b.width
	if t%b.width < 0 {
		k--
	}
	return int64(k)
}

// Sum returns the number of hits that count at now.
func (b *Buckets) Sum(now window.Instant) (sum uint64) {
	b.advance(now)
	for _, n := range b.hits {
		sum += n
	}
	return sum
}

// advance moves what lies after now into now's bucket, and forgets the buckets that no longer count, so that a refund
// cannot find them.
func (b *Buckets) advance(now window.Instant) {
	live := b.index(now)
	b.at = min(b.at, live)
	for _, counts := range []map[int64]uint64{b.hits, b.leased} {
		for k, n := range counts {
			if k > live {
				counts[live] += n
				delete(counts, k)
			}
		}
	}
	for k := range b.hits {
		if b.expiryOf(k) <= now {
			b.change(k, 0)
			delete(b.leased, k)
		}
	}
}

// stepsBack reports whether hits lie after now's bucket, and some are leased: then nobody can tell the leases of a bucket
// from those of the one that it becomes. It is to be asked before anything else at now.
func (b *Buckets) stepsBack(now window.Instant) bool {
	later, leased := false, uint64(0)
	for k, n := range b.hits {
		later, leased = later || k > b.index(now) && n > 0, leased+b.leased[k]
	}
	return later && leased > 0
}

// leaves returns the first moment at which a bucket no longer counts.
func (b *Buckets) expiryOf(k int64) window.Instant { return window.Instant(k+1)*b.width + b.after }

// change gives a bucket another count.
func (b *Buckets) change(k int64, hits uint64) {
	if b.hits[k] = hits; hits == 0 {
		delete(b.hits, k)
	}
}

// Add counts delta hits at now, up to window.MaxCount in all; a negative delta takes back the newest, at most all of
// them.
func (b *Buckets) Add(now window.Instant, delta int64) {
	sum := b.Sum(now)
	if delta >= 0 {
		if hits := min(uint64(delta), window.MaxCount-sum); hits > 0 {
			live := b.index(now)
			if live != b.at && b.hits[b.at] > 0 { // of two buckets it is known what is leased: the last two that hold hits
				maps.DeleteFunc(b.leased, func(k int64, _ uint64) bool { return k != b.at && k != live })
			}
			b.at = live
			b.change(live, b.hits[live]+hits)
		}
		return
	}
	back := uint64(-delta)
	for _, k := range slices.SortedFunc(maps.Keys(b.hits), func(x, y int64) int { return cmp.Compare(y, x) }) {
		n := min(back, b.hits[k])
		if k == b.at && k == b.index(now) { // what is leased may still be used
			n = min(back, b.hits[k]-b.leased[k])
		}
		if k != b.at && n > 0 {
			maps.DeleteFunc(b.leased, func(k int64, _ uint64) bool { return k != b.at })
		}
		b.change(k, b.hits[k]-n)
		b.leased[k] = min(b.leased[k], b.hits[k])
		back -= n
	}
}

// Grant counts hits of a lease.
func (b *Buckets) Grant(now window.Instant, hits uint64) {
	b.Add(now, int64(hits))
	b.leased[b.at] += hits
}

// Settle ends a lease that was granted at a moment, and returns how many of its unused hits it takes back: all that are
// known to be leased of the bucket in which they were charged, if no other hits were counted between that and now's.
func (b *Buckets) Settle(now, at window.Instant, granted, unused uint64) uint64 {
	b.advance(now)
	charged, live := b.index(at), b.index(now)
	for k := range b.hits {
		if charged < k && k < live {
			return 0
		}
	}
	back := min(unused, b.leased[charged])
	b.change(charged, b.hits[charged]-back)
	b.leased[charged] -= min(granted, b.leased[charged])
	return back
}

// Until returns the first moment, now or later, at which at most keep of the hits that count now still do.
func (b *Buckets) Until(now window.Instant, keep uint64) window.Instant {
	left := b.Sum(now)
	for _, k := range slices.Sorted(maps.Keys(b.hits)) {
		if left <= keep {
			break
		}
		if left -= b.hits[k]; left <= keep {
			return b.expiryOf(k)
		}
	}
	return now
}

// Held returns how many buckets the states of some limits hold, instants of a log, and 1 of a token bucket in which
// anything counts.
func Held(states window.States, limits []descriptors.Limit) (n int) {
	for i := range limits {
		switch s := states.Of(&limits[i]).(type) {
		case *window.Cells:
			for range s.Buckets(0) { // when all are still to come
				n++
			}
		case *window.Tokens:
			if s.Expires() > 0 {
				n++
			}
		}
	}
	return n
}

package backendtest

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/window"
	"github.com/weirproxy/weir/descriptors"
)

// Buckets counts the hits of one limit of one key as the definition of a sliding or a fixed window says: in a bucket on
// every level, of which it reads those that cover the last window. It is slow and plain, and the oracle of every store.
type Buckets struct {
	fixed  bool
	length time.Duration
	levels []time.Duration
	hits   []map[int64]uint64 // per level, by bucket number

	at     int64            // the finest bucket that was last counted in
	leased map[int64]uint64 // of the finest buckets' hits: granted by leases, and not settled
}

// NewBuckets returns the empty state of a limit.
func NewBuckets(l *descriptors.Limit) *Buckets {
	b := &Buckets{fixed: l.Algorithm == descriptors.FixedWindow, length: l.Window, levels: l.Levels(), leased: make(map[int64]uint64)}
	for range b.levels {
		b.hits = append(b.hits, make(map[int64]uint64))
	}
	return b
}

// Sum returns the number of hits that count at now.
func (b *Buckets) Sum(now window.Instant) uint64 {
	b.advance(now)
	runs := []run{{first: index(now, micros(b.length)), count: 1}}
	if !b.fixed {
		runs = cover(b.levels, b.length, now)
	}
	var sum uint64
	for _, r := range runs {
		for k := r.first; k < r.first+r.count; k++ {
			sum += b.hits[r.level][k]
		}
	}
	return sum
}

// advance moves what lies after now into now's buckets, and forgets the fine buckets that no longer count together
// with their share of the coarse ones, so that a refund cannot find them.
func (b *Buckets) advance(now window.Instant) {
	live := index(now, micros(b.levels[0]))
	b.at = min(b.at, live)
	for k, n := range b.leased {
		if k > live {
			b.leased[live] += n
			delete(b.leased, k)
		}
	}
	for level, width := range b.levels {
		live := index(now, micros(width))
		for k, n := range b.hits[level] {
			if k > live {
				b.hits[level][live] += n
				delete(b.hits[level], k)
			}
		}
	}
	for k := range b.hits[0] {
		if b.leaves(k) <= now {
			b.change(k, 0)
			delete(b.leased, k)
		}
	}
}

// leaves returns the first moment at which a finest bucket no longer counts.
func (b *Buckets) leaves(k int64) window.Instant {
	end := window.Instant(k+1) * micros(b.levels[0])
	if b.fixed {
		return end
	}
	return end + micros(b.length)
}

// change gives the finest bucket k another count, and adds the difference on every level.
func (b *Buckets) change(k int64, hits uint64) {
	was := b.hits[0][k]
	begin := window.Instant(k) * micros(b.levels[0])
	for level, width := range b.levels {
		at := index(begin, micros(width))
		b.hits[level][at] += hits - was
		if b.hits[level][at] == 0 {
			delete(b.hits[level], at)
		}
	}
}

// Add counts delta hits at now, up to window.MaxCount in all; a negative delta takes back the newest, at most all of
// them.
func (b *Buckets) Add(now window.Instant, delta int64) {
	sum := b.Sum(now)
	if delta >= 0 {
		if hits := min(uint64(delta), window.MaxCount-sum); hits > 0 {
			live := index(now, micros(b.levels[0]))
			if live != b.at && b.hits[0][b.at] > 0 { // of two buckets it is known what is leased: the last two that hold hits
				maps.DeleteFunc(b.leased, func(k int64, _ uint64) bool { return k != b.at && k != live })
			}
			b.at = live
			b.change(live, b.hits[0][live]+hits)
		}
		return
	}
	back := uint64(-delta)
	for _, k := range slices.SortedFunc(maps.Keys(b.hits[0]), func(x, y int64) int { return cmp.Compare(y, x) }) {
		n := min(back, b.hits[0][k])
		if k == b.at && k == index(now, micros(b.levels[0])) { // what is leased may still be used
			n = min(back, b.hits[0][k]-b.leased[k])
		}
		if k != b.at && n > 0 {
			maps.DeleteFunc(b.leased, func(k int64, _ uint64) bool { return k != b.at })
		}
		b.change(k, b.hits[0][k]-n)
		b.leased[k] = min(b.leased[k], b.hits[0][k])
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
	charged, live := index(at, micros(b.levels[0])), index(now, micros(b.levels[0]))
	for k := range b.hits[0] {
		if charged < k && k < live {
			return 0
		}
	}
	back := min(unused, b.leased[charged])
	b.change(charged, b.hits[0][charged]-back)
	b.leased[charged] -= min(granted, b.leased[charged])
	return back
}

// Until returns the first moment, now or later, at which at most keep of the hits that count now still do.
func (b *Buckets) Until(now window.Instant, keep uint64) window.Instant {
	left := b.Sum(now)
	for _, k := range slices.Sorted(maps.Keys(b.hits[0])) {
		if left <= keep {
			break
		}
		if left -= b.hits[0][k]; left <= keep {
			return b.leaves(k)
		}
	}
	return now
}

// RandomSliding draws a sliding window with any precision that is allowed for it.
func RandomSliding(t testing.TB, r *rand.Rand) descriptors.Limit {
	t.Helper()
	for {
		u := descriptors.Unit(1 + r.IntN(7))
		precisions := []time.Duration{0, 50 * time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}
		l, err := descriptors.NewLimit(1+r.Uint64N(10), u, 1+r.Uint32N(5), descriptors.SlidingWindow,
			precisions[r.IntN(6)])
		if err == nil {
			return l
		}
	}
}

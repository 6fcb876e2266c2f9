package window

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// Buckets counts the hits of one limit of one key as the definition says: in a bucket on every level, read through
// [Cover], bucket by bucket. It is slow and plain, and the oracle of every store; of all algorithms but the sliding
// log, which has no buckets. A Buckets is not for concurrent use.
type Buckets struct {
	fixed  bool
	window time.Duration
	levels []time.Duration
	hits   []map[int64]uint64 // per level, by bucket number
	reads  int                // how many buckets Sum has read so far
}

// NewBuckets returns the empty state of a limit.
func NewBuckets(l *descriptors.Limit) *Buckets {
	b := &Buckets{fixed: l.Algorithm == descriptors.FixedWindow, window: l.Window, levels: l.Levels()}
	for range b.levels {
		b.hits = append(b.hits, make(map[int64]uint64))
	}
	return b
}

// Sum returns the number of hits that count at now.
func (b *Buckets) Sum(now Instant) uint64 {
	b.advance(now)
	runs := []Run{{Level: 0, First: now.index(micros(b.window)), Count: 1}}
	if !b.fixed {
		runs = Cover(nil, b.levels, b.window, now)
	}
	var sum uint64
	for _, run := range runs {
		for k := run.First; k < run.First+run.Count; k++ {
			sum += b.hits[run.Level][k]
			b.reads++
		}
	}
	return sum
}

// advance moves what lies after now into now's buckets, and forgets the fine buckets that no longer count together
// with their share of the coarse ones, so that a refund cannot find them.
func (b *Buckets) advance(now Instant) {
	for level, width := range b.levels {
		live := now.index(micros(width))
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
		}
	}
}

// leaves returns the first moment at which a finest bucket no longer counts.
func (b *Buckets) leaves(k int64) Instant {
	end := Instant(k+1) * micros(b.levels[0])
	if b.fixed {
		return end
	}
	return end + micros(b.window)
}

// change gives the finest bucket k another count, and adds the difference on every level.
func (b *Buckets) change(k int64, hits uint64) {
	was := b.hits[0][k]
	begin := Instant(k) * micros(b.levels[0])
	for level, width := range b.levels {
		at := begin.index(micros(width))
		b.hits[level][at] += hits - was
		if b.hits[level][at] == 0 {
			delete(b.hits[level], at)
		}
	}
}

// Add counts delta hits at now, up to MaxCount in all; a negative delta takes back the newest, at most all of them.
func (b *Buckets) Add(now Instant, delta int64) {
	sum := b.Sum(now)
	if delta >= 0 {
		if hits := min(uint64(delta), MaxCount-sum); hits > 0 {
			live := now.index(micros(b.levels[0]))
			b.change(live, b.hits[0][live]+hits)
		}
		return
	}
	back := uint64(-delta)
	for _, k := range slices.SortedFunc(maps.Keys(b.hits[0]), func(x, y int64) int { return cmp.Compare(y, x) }) {
		n := min(back, b.hits[0][k])
		b.change(k, b.hits[0][k]-n)
		back -= n
	}
}

// Until returns the first moment, now or later, at which at most keep of the hits that count now still do.
func (b *Buckets) Until(now Instant, keep uint64) Instant {
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

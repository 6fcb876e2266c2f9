package ranking

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// candidate is a key that may be listed.
type candidate struct {
	key   string
	at    int // which of its rule's limits is the fullest
	hits  uint64
	share float64 // of the limit that is used, or a bound of it
	reset time.Duration
	over  bool // one of its limits is known to have nothing left
}

// compare orders candidates: the fuller is greater. Of the equally full it is the one with more hits, then the one that
// resets later.
func (c *candidate) compare(other *candidate) int {
	return cmp.Or(cmp.Compare(c.share, other.share), cmp.Compare(c.hits, other.hits), cmp.Compare(c.reset, other.reset),
		strings.Compare(other.key, c.key))
}

// board keeps the fullest candidates, each key once.
type board struct {
	most  int
	kept  []*candidate // the fullest first
	byKey map[string]*candidate
	// passed is how many candidates were not kept, by their share in thousandths, rounded up; the last for all above.
	passed [2001]uint64
}

func newBoard(most int) *board { return &board{most: most, byKey: make(map[string]*candidate)} }

// least returns the share that a candidate must be above to be worth a look: that of the least full one, or less than any
// while there is room.
func (b *board) least() float64 {
	if len(b.kept) < b.most {
		return -1
	}
	return b.kept[len(b.kept)-1].share
}

// offer keeps a candidate if it is among the fullest. One whose key is there already takes its place.
func (b *board) offer(c candidate) {
	if old := b.byKey[c.key]; old != nil {
		at := b.place(old)
		b.kept = slices.Delete(b.kept, at, at+1)
	}
	b.byKey[c.key] = &c
	b.kept = slices.Insert(b.kept, b.place(&c), &c)
	if len(b.kept) > b.most {
		least := b.kept[b.most]
		b.kept = b.kept[:b.most]
		delete(b.byKey, least.key)
		b.passed[thousandths(least.share)]++
	}
}

// place returns where a candidate stands among those that are kept, or would.
func (b *board) place(c *candidate) int {
	at, _ := slices.BinarySearchFunc(b.kept, c, func(kept, c *candidate) int { return c.compare(kept) })
	return at
}

func thousandths(share float64) int { return int(math.Ceil(min(1000*share, 2000))) }

// passedAbove returns how many were not kept that have a share above this one, by a thousandth at least.
func (b *board) passedAbove(share float64) (n uint64) {
	for _, count := range b.passed[min(thousandths(max(share, 0))+1, len(b.passed)-1):] {
		n += count
	}
	return n
}

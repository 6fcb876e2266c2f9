package ranking

import (
	"cmp"
	"container/heap"
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
	index int  // on its board
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
	kept  kept
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
	return b.kept[0].share
}

// offer keeps a candidate if it is among the fullest. One whose key is there already takes its place.
func (b *board) offer(c candidate) {
	if old := b.byKey[c.key]; old != nil {
		c.index = old.index
		*old = c
		heap.Fix(&b.kept, c.index)
		return
	}
	if len(b.kept) == b.most {
		if c.compare(b.kept[0]) <= 0 {
			b.pass(&c)
			return
		}
		least := heap.Pop(&b.kept).(*candidate)
		delete(b.byKey, least.key)
		b.pass(least)
	}
	b.byKey[c.key] = &c
	heap.Push(&b.kept, &c)
}

func (b *board) pass(c *candidate) { b.passed[thousandths(c.share)]++ }

func thousandths(share float64) int { return int(math.Ceil(min(1000*share, 2000))) }

// passedAbove returns how many were not kept that have a share above this one, by a thousandth at least.
func (b *board) passedAbove(share float64) (n uint64) {
	for _, count := range b.passed[min(thousandths(max(share, 0))+1, len(b.passed)-1):] {
		n += count
	}
	return n
}

// ranked returns the kept candidates, the fullest first. The board is of no use afterwards.
func (b *board) ranked() []*candidate {
	slices.SortFunc(b.kept, func(a, b *candidate) int { return b.compare(a) })
	return b.kept
}

// kept is a heap of candidates, the least full first.
type kept []*candidate

func (k kept) Len() int           { return len(k) }
func (k kept) Less(i, j int) bool { return k[i].compare(k[j]) < 0 }

func (k kept) Swap(i, j int) {
	k[i], k[j] = k[j], k[i]
	k[i].index, k[j].index = i, j
}

// Push and Pop are for container/heap.
func (k *kept) Push(x any) {
	c := x.(*candidate)
	c.index = len(*k)
	*k = append(*k, c)
}

// Pop takes the last candidate, as container/heap wants it.
func (k *kept) Pop() any {
	last := (*k)[len(*k)-1]
	*k = (*k)[:len(*k)-1]
	return last
}

package history

import (
	"cmp"
	"math"
	"slices"
)

// Cell is a bucket of a chunk that holds hits.
type Cell struct {
	Place int    // in its chunk
	Sum   uint64 // never 0
	Peak  uint64 // the largest minute known when it was rolled; of a minute, Sum
}

// Cells are the buckets of a chunk that hold hits, by place. No place comes twice.
type Cells []Cell

// Find returns the index of a place's cell or, if there is none, of the first cell after it.
func (c Cells) Find(place int) (i int, found bool) {
	return slices.BinarySearchFunc(c, place, func(cell Cell, place int) int { return cmp.Compare(cell.Place, place) })
}

// at returns the cell of a place, made if there is none, and what replaces c, into which it may write.
func (c Cells) at(place int) (Cells, *Cell) {
	i, found := c.Find(place)
	if !found {
		c = slices.Insert(c, i, Cell{Place: place})
	}
	return c, &c[i]
}

// Sum returns all hits in the cells.
func (c Cells) Sum() uint64 {
	var sum uint64
	for i := range c {
		sum += c[i].Sum
	}
	return sum
}

// Early returns the chunk that a series with too many points moves on first: the one that the job would move first, the
// finer of two, and the hour that is being written only where nothing else is left. It finds none if all are of days.
func (k *Keep) Early(chunks []Chunk, now int64) (first Chunk, found bool) {
	due := func(c Chunk) int64 {
		if c == ChunkOf(Minutes, now) {
			return math.MaxInt64
		}
		return k.Due(c, 0)
	}
	for _, c := range chunks {
		if c.Tier < Days && (!found || cmp.Or(cmp.Compare(due(c), due(first)), cmp.Compare(c.Tier, first.Tier)) < 0) {
			first, found = c, true
		}
	}
	return first, found
}

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

// at returns the cell of a place, made if there is none, and what replaces c, into which it may write.
func (c Cells) at(place int) (Cells, *Cell) {
	i, found := slices.BinarySearchFunc(c, place, func(cell Cell, place int) int { return cmp.Compare(cell.Place, place) })
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

// Expire splits cells of a chunk of days, without copying them, into those older than the retention and the rest.
func (k *Keep) Expire(c Chunk, cells Cells, now int64) (gone, stay Cells) {
	first, n := k.FirstKept(c, now), 0
	for n < len(cells) && cells[n].Place < first {
		n++
	}
	return cells[:n], cells[n:]
}

// FirstKept returns the place of the first day of a chunk of days that is not older than the retention.
func (k *Keep) FirstKept(c Chunk, now int64) int {
	return int(max(0, min(floorDiv(now-k.Due(c, c.Start()), day)+1, int64(c.Places()))))
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

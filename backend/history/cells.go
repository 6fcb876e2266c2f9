package history

import (
	"cmp"
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

// find returns where the cell of a place is, or is to be put.
func (c Cells) find(place int) (at int, found bool) {
	return slices.BinarySearchFunc(c, place, func(cell Cell, place int) int { return cmp.Compare(cell.Place, place) })
}

// count adds hits to a minute. It may write into c, and returns what replaces it.
func (c Cells) count(place int, hits uint64) Cells {
	at, found := c.find(place)
	if !found {
		c = slices.Insert(c, at, Cell{Place: place})
	}
	c[at].Sum += hits
	c[at].Peak = c[at].Sum
	return c
}

// merge adds cells that have been moved here from a finer tier. It may write into c, and returns what replaces it.
func (c Cells) merge(moved Cells) Cells {
	for _, m := range moved {
		at, found := c.find(m.Place)
		if !found {
			c = slices.Insert(c, at, Cell{Place: m.Place})
		}
		c[at].Sum += m.Sum
		c[at].Peak = max(c[at].Peak, m.Peak)
	}
	return c
}

// Sum returns all hits in the cells.
func (c Cells) Sum() uint64 {
	var sum uint64
	for i := range c {
		sum += c[i].Sum
	}
	return sum
}

// part is what a chunk becomes in a chunk of the next tier.
type part struct {
	chunk Chunk
	cells Cells
}

// next returns what the chunk's cells become in the next tier, oldest first: one part, or two where a week lies in two
// years. Days have no next tier.
func (c Chunk) next(cells Cells) []part {
	var parts []part
	for i := range cells {
		at := c.At(cells[i].Place)
		next := ChunkOf(c.Tier+1, at)
		if len(parts) == 0 || parts[len(parts)-1].chunk != next {
			parts = append(parts, part{chunk: next})
		}
		last := &parts[len(parts)-1]
		last.cells = last.cells.merge(Cells{{Place: next.Place(at), Sum: cells[i].Sum, Peak: cells[i].Peak}})
	}
	return parts
}

// Expire splits the cells of a chunk of days into those that are older than the retention, and those that stay. Both
// lie in cells.
func (k *Keep) Expire(c Chunk, cells Cells, now int64) (gone, stay Cells) {
	n := 0
	for n < len(cells) && k.Due(c, c.At(cells[n].Place)) <= now {
		n++
	}
	return cells[:n], cells[n:]
}

// Early returns the chunk that a series with too many points moves on first: the one that the job would move first, the
// finer of two, and the hour that is being written only where nothing else is left. It returns false if all are of
// days.
func (k *Keep) Early(chunks []Chunk, now int64) (Chunk, bool) {
	present, best, found := ChunkOf(Minutes, now), Chunk{}, false
	for _, c := range chunks {
		if c.Tier < Days && (!found || k.earlier(c, best, present)) {
			best, found = c, true
		}
	}
	return best, found
}

func (k *Keep) earlier(a, b, present Chunk) bool {
	if a == present || b == present {
		return b == present && a != present
	}
	return cmp.Or(cmp.Compare(k.Due(a, 0), k.Due(b, 0)), cmp.Compare(a.Tier, b.Tier)) < 0
}

package history

import (
	"cmp"
	"math"
	"slices"
)

// Totals are the numbers of a series that a store has in addition to its chunks. Their methods have all the arithmetic
// of changes; the store provides the chunks. After an error the store must discard the changes of totals and
// chunks, as by rolling a transaction back.
type Totals struct {
	Lifetime uint64 // all hits ever counted, up to MaxTotal
	Expired  uint64 // part of Lifetime that was dropped with expired days
	Points   uint64 // number of buckets finer than a day
}

// FullyExpired reports whether this is the series of a value and all its hits have expired. Stores then remove it, so
// that changing values do not add series for ever. Other series stay, with their lifetime.
func (t *Totals) FullyExpired(id ID) bool { return IsPersonal(id.Value) && t.Expired == t.Lifetime }

// Chunks gives access to the cells of one series, in memory or in a transaction of a store.
type Chunks interface {
	// Cells returns the cells of a chunk, none if the series has no such chunk. The caller may change them.
	Cells(c Chunk) (Cells, error)
	// SetCells replaces the cells of a chunk. If there are none, it removes the chunk.
	SetCells(c Chunk, cells Cells) error
	// Fine returns the chunks finer than a day, in any order.
	Fine() ([]Chunk, error)
}

// Apply counts an increment, and downsamples the series early if it then has too many points. An increment of the
// future counts in the present minute. If its hits do not fit into MaxTotal, Apply adds them to r as refused, and
// changes nothing.
func (t *Totals) Apply(in Chunks, i *Increment, k *Retention, now int64, r *ApplyResult) error {
	if i.Hits > MaxTotal-min(t.Lifetime, MaxTotal) {
		r.Refused += i.Hits
		return nil
	}
	at := min(i.Minute, now/Minute) * Minute
	c := ChunkOf(i.Tier, at)
	cells, err := in.Cells(c)
	if err != nil {
		return err
	}
	before := len(cells)
	cells, cell := cells.at(c.Index(at))
	cell.Sum += i.Hits
	cell.Peak = max(cell.Peak, i.Peak)
	if i.Tier == Minutes {
		cell.Peak = cell.Sum
	}
	t.Lifetime += i.Hits
	if i.Tier < Days {
		t.Points += uint64(len(cells) - before)
	}
	if err := in.SetCells(c, cells); err != nil {
		return err
	}
	return t.downsampleEarly(in, k, now)
}

// Downsample moves a due chunk to the next tier, or drops days of it that are older than the retention, and adds the
// result to did. It does nothing if there is no such chunk.
func (t *Totals) Downsample(in Chunks, c Chunk, k *Retention, now int64, did *DownsampleResult) error {
	if c.Tier < Days {
		points, _, err := t.move(in, c)
		did.Chunks += uint64(min(points, 1))
		did.Points += uint64(points)
		return err
	}
	cells, err := in.Cells(c)
	if err != nil {
		return err
	}
	n, _ := cells.Find(int(floorDiv(now-k.Due(c, c.Start()), Day) + 1)) // the first day that is not too old
	expired, rest := cells[:n], cells[n:]
	if len(expired) == 0 {
		return nil
	}
	t.Expired += expired.Sum()
	did.Expired += expired.Sum()
	did.Chunks++
	did.Points += uint64(len(expired))
	return in.SetCells(c, rest)
}

// downsampleEarly moves chunks before they are due until the series has at most MaxPoints points finer than a day.
func (t *Totals) downsampleEarly(in Chunks, k *Retention, now int64) error {
	if t.Points <= uint64(k.MaxPoints) {
		return nil
	}
	fine, err := in.Fine()
	if err != nil {
		return err
	}
	for t.Points > uint64(k.MaxPoints) {
		c, found := k.Early(fine, now)
		if !found {
			return nil
		}
		_, to, err := t.move(in, c)
		if err != nil {
			return err
		}
		fine = append(slices.DeleteFunc(fine, func(f Chunk) bool { return f == c || slices.Contains(to, f) }), to...)
	}
	return nil
}

// move moves a chunk to the next tier: to one chunk, or to two if a week lies in two years. It returns the number of
// points that the chunk had, and the chunks that have their hits now.
func (t *Totals) move(in Chunks, c Chunk) (points int, to []Chunk, err error) {
	cells, err := in.Cells(c)
	if err != nil {
		return 0, nil, err
	}
	for next := 0; next < len(cells); {
		chunk := ChunkOf(c.Tier+1, c.At(cells[next].Index))
		target, err := in.Cells(chunk)
		if err != nil {
			return 0, nil, err
		}
		before := len(target)
		for ; next < len(cells) && c.At(cells[next].Index) < chunk.End(); next++ {
			var cell *Cell
			target, cell = target.at(chunk.Index(c.At(cells[next].Index)))
			cell.Sum += cells[next].Sum
			cell.Peak = max(cell.Peak, cells[next].Peak)
		}
		if chunk.Tier < Days {
			t.Points += uint64(len(target) - before)
		}
		if err := in.SetCells(chunk, target); err != nil {
			return 0, nil, err
		}
		to = append(to, chunk)
	}
	t.Points -= min(uint64(len(cells)), t.Points)
	return len(cells), to, in.SetCells(c, nil)
}

// Cell is a bucket of a chunk, with hits.
type Cell struct {
	Index int    // of the bucket in the chunk
	Sum   uint64 // all hits; never 0
	Peak  uint64 // hits of the largest minute that was known when the bucket was made; for a minute, Sum
}

// Cells are the buckets of a chunk with hits, in the order of their indexes, each at most once.
type Cells []Cell

// Find returns the position of the cell with an index or, if there is none, of the first cell after it.
func (c Cells) Find(index int) (i int, found bool) {
	return slices.BinarySearchFunc(c, index, func(cell Cell, index int) int { return cmp.Compare(cell.Index, index) })
}

// at returns the cell with an index, and makes it if there is none. The returned Cells replace c, whose memory they may
// share.
func (c Cells) at(index int) (Cells, *Cell) {
	i, found := c.Find(index)
	if !found {
		c = slices.Insert(c, i, Cell{Index: index})
	}
	return c, &c[i]
}

// Sum returns the number of all hits in the cells.
func (c Cells) Sum() uint64 {
	var sum uint64
	for i := range c {
		sum += c[i].Sum
	}
	return sum
}

// Early returns the chunk that a series with too many points moves first: the one that is due first, the finer of two,
// and the present hour only if there is no other. It finds none if all chunks are of days.
func (k *Retention) Early(chunks []Chunk, now int64) (first Chunk, found bool) {
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

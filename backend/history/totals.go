package history

import (
	"cmp"
	"math"
	"slices"
)

// Totals are the numbers of a series that a store keeps beside its chunks. Their methods are all the arithmetic that
// changes a series; where the chunks are is the store's business. After an error neither totals nor chunks may be kept:
// a store works in a transaction.
type Totals struct {
	Lifetime uint64 // all hits that were ever counted, up to MaxTotal
	Expired  uint64 // of these, dropped with the retention
	Points   uint64 // buckets finer than a day
}

// FullyExpired reports whether all hits of a value's series have expired. Stores then remove it, so that changing values
// do not add series for ever. Other series keep their lifetime.
func (t *Totals) FullyExpired(id ID) bool { return IsPersonal(id.Value) && t.Expired == t.Lifetime }

// Chunks is where the cells of one series are kept: in memory, or in a transaction of a store.
type Chunks interface {
	// Cells returns those of a chunk, none if the series has no such chunk. The caller may write into them.
	Cells(c Chunk) (Cells, error)
	// SetCells replaces the cells of a chunk. No cells remove it.
	SetCells(c Chunk, cells Cells) error
	// Fine returns the chunks finer than a day, in any order.
	Fine() ([]Chunk, error)
}

// Apply counts an increment, in the present minute if its own is yet to come, and rolls the series early if it then has too
// many points. Hits that do not fit into MaxTotal are added to r as refused, and change nothing.
func (t *Totals) Apply(in Chunks, i *Increment, k *Keep, now int64, r *ApplyResult) error {
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
	cells, cell := cells.at(c.Place(at))
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

// Downsample does what is to be done to a chunk that is due, and adds it to did: it moves it to the next tier, or drops its
// days that are older than the retention. It does nothing to a chunk that has gone.
func (t *Totals) Downsample(in Chunks, c Chunk, k *Keep, now int64, did *DownsampleResult) error {
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
	expired, kept := cells[:n], cells[n:]
	if len(expired) == 0 {
		return nil
	}
	t.Expired += expired.Sum()
	did.Expired += expired.Sum()
	did.Chunks++
	did.Points += uint64(len(expired))
	return in.SetCells(c, kept)
}

// downsampleEarly rolls a series early until it has no more fine points than it may have.
func (t *Totals) downsampleEarly(in Chunks, k *Keep, now int64) error {
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

// move moves a chunk to the next tier: to one chunk, or to two where a week lies in two years. It returns how many
// points were in it, and the chunks that have them now.
func (t *Totals) move(in Chunks, c Chunk) (points int, to []Chunk, err error) {
	cells, err := in.Cells(c)
	if err != nil {
		return 0, nil, err
	}
	for next := 0; next < len(cells); {
		chunk := ChunkOf(c.Tier+1, c.At(cells[next].Place))
		target, err := in.Cells(chunk)
		if err != nil {
			return 0, nil, err
		}
		before := len(target)
		for ; next < len(cells) && c.At(cells[next].Place) < chunk.End(); next++ {
			var cell *Cell
			target, cell = target.at(chunk.Place(c.At(cells[next].Place)))
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

// Cell is a bucket of a chunk that holds hits.
type Cell struct {
	Place int    // in its chunk
	Sum   uint64 // never 0
	Peak  uint64 // the largest minute known when it was downsampled; of a minute, Sum
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

package history

import "slices"

// Totals are the numbers of a series that a store keeps beside its chunks. Their methods are all the arithmetic that
// changes a series; where the chunks are is the store's business. After an error neither totals nor chunks may be kept:
// a store works in a transaction.
type Totals struct {
	Lifetime uint64 // all hits that ever landed, up to MaxTotal
	Expired  uint64 // of these, dropped with the retention
	Points   uint64 // buckets finer than a day
}

// Chunks is where the cells of one series are kept: in memory, or in a transaction of a store.
type Chunks interface {
	// Cells returns those of a chunk, none if the series has no such chunk. The caller may write into them.
	Cells(c Chunk) (Cells, error)
	// SetCells replaces the cells of a chunk. No cells remove it.
	SetCells(c Chunk, cells Cells) error
	// Fine returns the chunks finer than a day, in any order.
	Fine() ([]Chunk, error)
}

// Count adds hits to a minute since 1970. It reports whether they fit: otherwise the series would have more than
// MaxTotal, and nothing is changed.
func (t *Totals) Count(in Chunks, minutes int64, hits uint64) (fit bool, err error) {
	if hits > MaxTotal-min(t.Lifetime, MaxTotal) {
		return false, nil
	}
	at := minutes * minute
	c := ChunkOf(Minutes, at)
	cells, err := in.Cells(c)
	if err != nil {
		return false, err
	}
	had := len(cells)
	cells = cells.count(c.Place(at), hits)
	t.Lifetime += hits
	t.Points += uint64(len(cells) - had)
	return true, in.SetCells(c, cells)
}

// Roll does what is to be done to a chunk that is due, and adds it to did: it moves it to the next tier, or drops its
// days that are older than the retention.
func (t *Totals) Roll(in Chunks, c Chunk, k *Keep, now int64, did *Rolled) error {
	if c.Tier < Days {
		points, _, err := t.move(in, c)
		if err == nil {
			did.Moved(c, points)
		}
		return err
	}
	cells, err := in.Cells(c)
	if err != nil {
		return err
	}
	gone, stay := k.Expire(c, cells, now)
	if len(gone) == 0 {
		return nil
	}
	t.Expired += gone.Sum()
	did.Expired += gone.Sum()
	did.Moved(c, len(gone))
	return in.SetCells(c, stay)
}

// Shrink rolls a series early until it has no more points finer than a day than it may have. It calls moved after each
// chunk.
func (t *Totals) Shrink(in Chunks, k *Keep, now int64, moved func()) error {
	if t.Points <= uint64(k.MaxPoints) {
		return nil
	}
	held, err := in.Fine()
	if err != nil {
		return err
	}
	for t.Points > uint64(k.MaxPoints) {
		c, found := k.Early(held, now)
		if !found {
			return nil
		}
		_, parts, err := t.move(in, c)
		if err != nil {
			return err
		}
		held = slices.DeleteFunc(held, func(h Chunk) bool { return h == c })
		for _, to := range parts {
			if !slices.Contains(held, to.chunk) {
				held = append(held, to.chunk)
			}
		}
		moved()
	}
	return nil
}

// move moves a chunk to the next tier. It returns how many points were in it, and what they became.
func (t *Totals) move(in Chunks, c Chunk) (points int, parts []part, err error) {
	cells, err := in.Cells(c)
	if err != nil {
		return 0, nil, err
	}
	parts = c.next(cells)
	for _, part := range parts {
		there, err := in.Cells(part.chunk)
		if err != nil {
			return 0, nil, err
		}
		merged := there.merge(part.cells)
		if part.chunk.Tier < Days {
			t.Points += uint64(len(merged) - len(there))
		}
		if err := in.SetCells(part.chunk, merged); err != nil {
			return 0, nil, err
		}
	}
	t.Points -= min(uint64(len(cells)), t.Points)
	return len(cells), parts, in.SetCells(c, nil)
}

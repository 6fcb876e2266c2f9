package history

import (
	"cmp"
	"maps"
	"slices"
)

// Ledger is one series in memory: all its chunks, or those that a query wants. It implements [Chunks] without errors.
// It may be used by one goroutine at a time. The zero value is an empty series.
type Ledger struct {
	Totals
	Chunks map[Chunk]Cells // none of them empty
}

// Cells returns the cells of a chunk, none if it has no such chunk.
func (l *Ledger) Cells(c Chunk) (Cells, error) { return l.Chunks[c], nil }

// SetCells replaces the cells of a chunk, and leaves the totals alone. No cells remove it.
func (l *Ledger) SetCells(c Chunk, cells Cells) error {
	if l.Chunks == nil {
		l.Chunks = make(map[Chunk]Cells)
	}
	l.Chunks[c] = cells
	if len(cells) == 0 {
		delete(l.Chunks, c)
	}
	return nil
}

// Fine returns the chunks finer than a day, in any order.
func (l *Ledger) Fine() ([]Chunk, error) {
	return slices.DeleteFunc(slices.Collect(maps.Keys(l.Chunks)), func(c Chunk) bool { return c.Tier == Days }), nil
}

// Add adds what another part of the same run did.
func (r *DownsampleResult) Add(more DownsampleResult) {
	r.Partitions += more.Partitions
	r.Series += more.Series
	r.Chunks += more.Chunks
	r.Points += more.Points
	r.Expired += more.Expired
}

// Series returns what a reader sees who asks for a range, in Unix seconds; from inclusive, to exclusive.
func (l *Ledger) Series(id ID, from, to int64) Series {
	var points []Point
	for c, cells := range l.Chunks {
		for i := range cells {
			points = append(points, Point{Start: c.At(cells[i].Place), Tier: c.Tier, Sum: cells[i].Sum, Peak: cells[i].Peak})
		}
	}
	points = slices.DeleteFunc(fold(points), func(p Point) bool { return p.Start >= to || p.End() <= from || from >= to })
	return Series{ID: id, Lifetime: l.Lifetime, Expired: l.Expired, Points: points, Fine: l.Totals.Points > 0}
}

// fold puts points in order, and adds those of late hits, which lie inside the stored bucket of a coarser tier, to that
// bucket: it is where they will end. It owns points from then on.
func fold(points []Point) []Point {
	slices.SortFunc(points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.Tier, a.Tier))
	})
	folded := points[:0]
	for _, p := range points {
		if n := len(folded); n > 0 && p.Start < folded[n-1].End() {
			folded[n-1].Sum += p.Sum
			folded[n-1].Peak = max(folded[n-1].Peak, p.Peak)
			continue
		}
		folded = append(folded, p)
	}
	return folded
}

// Needs reports whether a chunk may hold anything of the answer to the query: its range is widened to whole days,
// because late hits of a day belong to a bucket that overlaps the range wherever in the day they lie.
func (q *Query) Needs(c Chunk) bool {
	const earliest, latest = -Week, (maxMinute + 1) * Minute
	r := Range{max(q.From, earliest), min(q.To, latest)}
	days := r.widen(Day)
	return r.Length() > 0 && c.End() > days.From && c.Start() < days.To
}

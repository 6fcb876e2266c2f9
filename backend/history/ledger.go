package history

import (
	"cmp"
	"maps"
	"slices"
)

// Ledger is one series in memory: all its chunks, or those that a query needs. It implements [Chunks] and never returns
// errors. It is not for concurrent use. The zero value is an empty series.
type Ledger struct {
	Totals
	Chunks map[Chunk]Cells // none of them empty
}

// Cells implements [Chunks].
func (l *Ledger) Cells(c Chunk) (Cells, error) { return l.Chunks[c], nil }

// SetCells implements [Chunks]. It does not change the totals.
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

// Fine implements [Chunks].
func (l *Ledger) Fine() ([]Chunk, error) {
	return slices.DeleteFunc(slices.Collect(maps.Keys(l.Chunks)), func(c Chunk) bool { return c.Tier == Days }), nil
}

// Add adds the result of another part of the same run.
func (r *DownsampleResult) Add(more DownsampleResult) {
	r.Partitions += more.Partitions
	r.Series += more.Series
	r.Chunks += more.Chunks
	r.Points += more.Points
	r.Expired += more.Expired
}

// Series returns the series with its points in a range, in Unix seconds; from inclusive, to exclusive.
func (l *Ledger) Series(id ID, from, to int64) Series {
	var points []Point
	for c, cells := range l.Chunks {
		for i := range cells {
			points = append(points, Point{Start: c.At(cells[i].Index), Tier: c.Tier, Sum: cells[i].Sum, Peak: cells[i].Peak})
		}
	}
	points = slices.DeleteFunc(fold(points), func(p Point) bool { return p.Start >= to || p.End() <= from || from >= to })
	return Series{ID: id, Lifetime: l.Lifetime, Expired: l.Expired, Points: points, Fine: l.Totals.Points > 0}
}

// fold sorts points. Points of late hits may lie inside the stored bucket of a coarser tier; fold adds them to that
// bucket, as downsampling will. The caller must not use points any more.
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

// Needs reports whether the answer to the query may need a chunk. The query's range is widened to whole days, because
// late hits of a day are added to a bucket of the day, which may overlap the range.
func (q *Query) Needs(c Chunk) bool {
	const earliest, latest = -Week, (maxMinute + 1) * Minute
	r := Range{max(q.From, earliest), min(q.To, latest)}
	days := r.widen(Day)
	return r.Length() > 0 && c.End() > days.From && c.Start() < days.To
}

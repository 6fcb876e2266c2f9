package history

import (
	"cmp"
	"maps"
	"slices"
)

// Ledger is one series in memory: all its chunks, or those that a query wants. It is the arithmetic of this package put
// together. The zero value is an empty series. It may be used by one goroutine at a time.
type Ledger struct {
	Lifetime, Expired uint64
	chunks            map[Chunk]Cells
}

// Put puts the cells of a chunk in the place of what was there. No cells remove it.
func (l *Ledger) Put(c Chunk, cells Cells) {
	if l.chunks == nil {
		l.chunks = make(map[Chunk]Cells)
	}
	if len(cells) == 0 {
		delete(l.chunks, c)
		return
	}
	l.chunks[c] = cells
}

// Get is the cells of a chunk, nil if it has none. They belong to the ledger.
func (l *Ledger) Get(c Chunk) Cells { return l.chunks[c] }

// Clone is a copy that shares nothing with the ledger, to see what a job would do.
func (l *Ledger) Clone() *Ledger {
	out := &Ledger{Lifetime: l.Lifetime, Expired: l.Expired}
	for c, cells := range l.chunks {
		out.Put(c, slices.Clone(cells))
	}
	return out
}

// Count adds hits to a minute since 1970, unless that would bring the series above MaxTotal.
func (l *Ledger) Count(minutes int64, hits uint64) bool {
	if hits > MaxTotal-l.Lifetime {
		return false
	}
	at := minutes * minute
	c := ChunkOf(Minutes, at)
	l.Put(c, l.chunks[c].Count(c.Place(at), hits))
	l.Lifetime += hits
	return true
}

// Points is how many points finer than a day the series holds.
func (l *Ledger) Points() int {
	n := 0
	for c, cells := range l.chunks {
		if c.Tier < Days {
			n += len(cells)
		}
	}
	return n
}

// Roll moves all that is due at a moment, in Unix seconds, as far as it goes, and drops the days that are too old.
func (l *Ledger) Roll(k *Keep, now int64) Rolled {
	var did Rolled
	for t := Minutes; t < Days; t++ {
		for _, c := range slices.Collect(maps.Keys(l.chunks)) {
			if c.Tier == t && k.Due(c, 0) <= now {
				l.move(c, &did)
			}
		}
	}
	for _, c := range slices.Collect(maps.Keys(l.chunks)) {
		if c.Tier != Days {
			continue
		}
		if gone, stay := k.Expire(c, l.chunks[c], now); len(gone) > 0 {
			did.Moved(c, len(gone))
			did.Expired += gone.Sum()
			l.Expired += gone.Sum()
			l.Put(c, stay)
		}
	}
	if did.Chunks != [Tiers]uint64{} {
		did.Series = 1
	}
	return did
}

// Shrink rolls the series early until it has no more points finer than a day than it may have.
func (l *Ledger) Shrink(k *Keep, now int64) {
	for l.Points() > k.MaxPoints {
		c, found := k.Early(slices.Collect(maps.Keys(l.chunks)), now)
		if !found {
			return
		}
		l.move(c, &Rolled{})
	}
}

// move moves a chunk to the next tier.
func (l *Ledger) move(c Chunk, did *Rolled) {
	cells := l.chunks[c]
	for _, part := range c.Next(cells) {
		l.Put(part.Chunk, l.chunks[part.Chunk].Merge(part.Cells))
	}
	l.Put(c, nil)
	did.Moved(c, len(cells))
}

// Moved notes a chunk that was moved to the next tier, or of which days were dropped, with its points.
func (r *Rolled) Moved(c Chunk, points int) {
	r.Chunks[c.Tier]++
	r.Points[c.Tier] += uint64(points)
}

// Add adds what another part of the same run did.
func (r *Rolled) Add(more Rolled) {
	r.Partitions += more.Partitions
	r.Series += more.Series
	for t := range Tiers {
		r.Chunks[t] += more.Chunks[t]
		r.Points[t] += more.Points[t]
	}
	r.Expired += more.Expired
	r.Forgotten += more.Forgotten
}

// Series is what a reader is shown who asks for a range, in Unix seconds; from inclusive, to exclusive.
func (l *Ledger) Series(id ID, from, to int64) Series {
	var points []Point
	for c, cells := range l.chunks {
		for i := range cells {
			points = append(points, Point{Start: c.At(cells[i].Place), Tier: c.Tier, Sum: cells[i].Sum, Peak: cells[i].Peak})
		}
	}
	points = slices.DeleteFunc(Fold(points), func(p Point) bool { return p.Start >= to || p.End() <= from || from >= to })
	return Series{ID: id, Lifetime: l.Lifetime, Expired: l.Expired, Points: points}
}

// Fold puts points in order, and adds those of late hits, which lie inside the stored bucket of a coarser tier, to that
// bucket: it is where they will end. It takes possession of points.
func Fold(points []Point) []Point {
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

// Needs says whether a chunk may hold anything of the answer to the query: its range is widened to whole days, because
// late hits of a day belong to a bucket that overlaps the range wherever in the day they lie.
func (q *Query) Needs(c Chunk) bool {
	const earliest, latest = -week, (maxMinute + 1) * minute
	from, to := max(q.From, earliest), min(q.To, latest)
	return from < to && c.End() > floorDiv(from, day)*day && c.Start() < -floorDiv(-to, day)*day
}

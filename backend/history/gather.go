package history

import (
	"context"
	"errors"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// RangeQuery asks for series, and says how their time is to be cut.
type RangeQuery struct {
	Query        // without its range
	Range  Range // as asked for, before it is widened to whole buckets
	Points int   // how many buckets to cut the time into at most; 0: as stored, or by Step
	Step   int64 // how wide they are to be, as [ParseStep] returns it; 0: as stored, or by Points
	Zone   *time.Location
}

// Shape is the range that an answer is about, and how it is cut: without borders as stored.
type Shape struct {
	Range
	Cut  Cut
	Step int64 // in force, in seconds, if one was asked for
}

// Gathered is what was read to answer a question.
type Gathered struct {
	Shape
	Stored     Extent     // of the series that can be read, of all shapes that were tried
	Met        Extent     // of the same series, in this shape
	Found      bool       // a series matches, with hits in the range or not
	Unreadable Unreadable // those left out
}

// maxRounds is how often the store is asked again because it has coarser buckets than the shape allows.
const maxRounds = 12

// Gather reads all series of a question in one shape, and calls visit with those that can be read. The stored buckets
// decide which shapes are possible, so the first shape is a guess. For each, begin is called first: what was visited in
// another is void.
func (q *RangeQuery) Gather(ctx context.Context, from Store, begin func(Shape), visit func(Series) error) (Gathered, error) {
	var g Gathered
	for range maxRounds {
		g.Shape, g.Unreadable, g.Met = q.shapeFor(&g.Stored), Unreadable{}, Extent{}
		begin(g.Shape)
		var err error
		g.Found, err = q.Each(ctx, from, g.Range, func(s Series) error {
			if s.Err != nil {
				g.Unreadable.Add(&s)
				return nil
			}
			g.Stored.Add(s.Points)
			g.Met.Add(s.Points)
			return visit(s)
		})
		if err != nil {
			return Gathered{}, err
		}
		if next := q.shapeFor(&g.Stored); next.Range == g.Range && next.Cut.equal(&g.Cut) {
			return g, nil
		}
	}
	return Gathered{}, errors.New("it is being moved to coarser tiers faster than it is read: ask again")
}

// shapeFor returns how the question is answered if the stored buckets have this extent.
func (q *RangeQuery) shapeFor(stored *Extent) Shape {
	switch {
	case q.Step > 0:
		step := stored.stepWidth(q.Step)
		cut := stored.step(q.Range, step, q.Zone)
		return Shape{cut.Range(), cut, step}
	case q.Points > 0:
		cut := stored.cut(q.Range, q.Points, q.Zone)
		return Shape{cut.Range(), cut, 0}
	}
	return Shape{Range: stored.widen(q.Range, q.Zone)}
}

// Buckets returns a series in this shape.
func (s *Shape) Buckets(series *Series) []Bucket {
	if s.Cut.Borders != nil {
		return s.Cut.fill(series.Points)
	}
	buckets := make([]Bucket, len(series.Points))
	for i, p := range series.Points {
		buckets[i] = Bucket{Start: p.Start, End: p.End(), Sum: p.Sum, Peak: p.Peak, Tier: p.Tier}
	}
	return buckets
}

// Each calls visit with each series of a query, in a range, and reports whether there were any with a name. If no path
// and value are as asked for, they are understood as people are shown them, which is not escaped. A series without a
// name is shown once.
func (q *Query) Each(ctx context.Context, from Store, in Range, visit func(Series) error) (found bool, err error) {
	query := *q
	query.From, query.To = in.From, in.To
	unnamed := make(map[string]bool) // by their errors
	for {
		err = from.Query(ctx, query, func(s Series) error {
			switch {
			case s.Unnamed && unnamed[s.Err.Error()]:
				return nil
			case s.Unnamed:
				unnamed[s.Err.Error()] = true
			case !isWanted(s.ID.Path, q.Path) || !isWanted(s.ID.Value, q.Value):
				return nil
			default:
				found = true
			}
			return visit(s)
		})
		if err != nil || found || query.Path == nil && query.Value == nil {
			return found, err
		}
		query.Path, query.Value = nil, nil
	}
}

// isWanted reports whether a path or a value is wanted, as it is stored or as people are shown it; nil wants any.
func isWanted(stored string, wanted *string) bool {
	return wanted == nil || descriptors.SamePath(stored, *wanted)
}

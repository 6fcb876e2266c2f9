package history

import (
	"context"
	"errors"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// RangeQuery is a query for series, and says how to cut their time range into buckets.
type RangeQuery struct {
	Query        // its From and To are not used
	Range  Range // the requested range, which is widened to whole buckets
	Points int   // cut into at most so many buckets; 0: by Step, or as stored
	Step   int64 // cut into buckets of this width, which [ParseStep] returns; 0: by Points, or as stored
	Zone   *time.Location
}

// Shape is the range of an answer and its cut. Without borders the buckets are as stored.
type Shape struct {
	Range
	Cut  Cut
	Step int64 // actual width in seconds, if a step was requested
}

// GatherResult describes the series that Gather has read.
type GatherResult struct {
	Shape
	Stored     Extent     // extent of the readable series, in all shapes that were tried
	Visited    Extent     // extent of the readable series, in this shape
	Found      bool       // a series matches, with or without hits in the range
	Unreadable Unreadable // the series that were left out
}

// maxRounds bounds how often the store is queried because its buckets are coarser than the shape allows.
const maxRounds = 12

// Gather reads all series of a query in one shape, and calls visit with the readable ones. The stored buckets decide
// which shapes are possible, so Gather may have to try several. It calls begin before each one, and the caller must
// then discard the series that it has visited.
func (q *RangeQuery) Gather(ctx context.Context, from Store, begin func(Shape), visit func(Series) error) (GatherResult, error) {
	var g GatherResult
	for range maxRounds {
		g.Shape, g.Unreadable, g.Visited = q.shapeFor(&g.Stored), Unreadable{}, Extent{}
		begin(g.Shape)
		var err error
		g.Found, err = q.Each(ctx, from, g.Range, func(s Series) error {
			if s.Err != nil {
				g.Unreadable.Add(&s)
				return nil
			}
			g.Stored.Add(s.Points)
			g.Visited.Add(s.Points)
			return visit(s)
		})
		if err != nil {
			return GatherResult{}, err
		}
		if next := q.shapeFor(&g.Stored); next.Range == g.Range && next.Cut.equal(&g.Cut) {
			return g, nil
		}
	}
	return GatherResult{}, errors.New("it is being moved to coarser tiers faster than it is read: ask again")
}

// shapeFor returns the shape of the answer if the stored buckets have this extent.
func (q *RangeQuery) shapeFor(stored *Extent) Shape {
	switch {
	case q.Step > 0:
		step := stored.stepWidth(q.Step)
		cut := stored.cutByStep(q.Range, step, q.Zone)
		return Shape{cut.Range(), cut, step}
	case q.Points > 0:
		cut := stored.cutByNumber(q.Range, q.Points, q.Zone)
		return Shape{cut.Range(), cut, 0}
	}
	return Shape{Range: stored.widen(q.Range, q.Zone)}
}

// Buckets returns the buckets of a series in this shape.
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

// Each calls visit with each series of a query, in a range, and reports whether there were any with a name. If no
// series has the query's path and value, Each compares them unescaped, as people see them. It visits only one of the
// unnamed series with the same error.
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

// isWanted reports whether a stored path or value is the wanted one, escaped or not; nil wants any.
func isWanted(stored string, wanted *string) bool {
	return wanted == nil || descriptors.SamePath(stored, *wanted)
}

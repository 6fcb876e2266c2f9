package curves

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxRounds is how often a question is asked anew because what is stored is coarser than was thought, at either end.
const maxRounds = 12

// shape is the range that an answer is about, and how it is cut: nil as stored.
type shape struct {
	history.Range
	cut  *history.Cut
	step int64 // in force, in seconds, if one was asked for; without a cut there would be too many of them
}

// shape returns how the question is answered if the stored buckets are those met.
func (q *query) shape(met *history.Met) shape {
	var cut history.Cut
	step := int64(0)
	switch {
	case q.step > 0:
		if step = met.StepWidth(q.step); steps(q.wanted, step) > MaxPoints {
			return shape{Range: met.Widen(q.wanted), step: step}
		}
		cut = met.Step(q.wanted, step, q.zone)
	case q.points > 0:
		cut = met.Cut(q.wanted, q.points, q.zone)
	default:
		return shape{Range: met.Widen(q.wanted)}
	}
	return shape{cut.Range(), &cut, step}
}

// steps returns how many steps a range has, widened to whole ones.
func steps(r history.Range, step int64) int64 { return (r.To+step-1)/step - r.From/step }

func (s *shape) equal(other *shape) bool {
	if s.cut == nil || other.cut == nil {
		return s.cut == other.cut && s.Range == other.Range && s.step == other.step
	}
	return s.cut.Equal(other.cut)
}

// gathered is how a question was answered.
type gathered struct {
	shape
	met   history.Met
	found bool // a series that was asked for, with hits in the range or not
}

// gather asks the store for all series of a question in one shape. What is stored decides which shapes are possible, so
// the first one is a guess, and begin is called anew for each further one: what its visitor was shown before is void.
func (h *History) gather(ctx context.Context, q *query, begin func(shape) func(history.Series) error) (gathered, error) {
	var g gathered
	for range maxRounds {
		g.shape = q.shape(&g.met)
		var err error
		if g.found, err = h.look(ctx, q, g.Range, &g.met, begin(g.shape)); err != nil {
			return gathered{}, err
		}
		if now := q.shape(&g.met); now.equal(&g.shape) {
			return g, nil
		}
	}
	return gathered{}, errors.New("it is being moved to coarser tiers faster than it is read: ask again")
}

// look shows the visitor all series of a question, remembers what it met, and reports whether there were any with a name.
// If no path and value are as asked for, they are understood as people are shown them, which is not escaped. A series
// without a name is shown once.
func (h *History) look(ctx context.Context, q *query, in history.Range, met *history.Met,
	visit func(history.Series) error) (found bool, err error) {
	query := q.Query
	query.From, query.To = in.From, in.To
	unnamed := make(map[string]bool) // by their errors
	meet := func(s history.Series) error {
		switch {
		case s.Unnamed && unnamed[s.Err.Error()]:
			return nil
		case s.Unnamed:
			unnamed[s.Err.Error()] = true
		default:
			found = true
		}
		if s.Err == nil {
			met.Add(s.Points)
		}
		return visit(s)
	}
	err = h.store.Query(ctx, query, meet)
	if err != nil || found || query.Path == nil && query.Value == nil {
		return found, err
	}
	query.Path, query.Value = nil, nil
	err = h.store.Query(ctx, query, func(s history.Series) error {
		if !s.Unnamed && !(q.hasPath(s.ID.Path) && q.hasValue(s.ID.Value)) {
			return nil
		}
		return meet(s)
	})
	return found, err
}

// hasPath reports whether a path is asked for, in either form.
func (q *query) hasPath(path string) bool {
	return q.Path == nil || descriptors.SamePath(path, *q.Path)
}

// hasValue reports whether a value is asked for, in either form.
func (q *query) hasValue(value string) bool {
	return q.Value == nil || descriptors.SamePath(value, *q.Value)
}

const maxAsked = 1000 // series whose whole life is looked at, because a range has no hits

// stored returns where the first stored bucket of what is asked for begins, and where the last one ends: of the range if
// it has any, else of all time. Both are 0 if nothing is stored, or too much to look at.
func (h *History) stored(ctx context.Context, q *query, g *gathered) (since, until int64, err error) {
	if in, some := g.met.Range(); some || !g.found {
		return in.From, in.To, nil
	}
	var all history.Met
	looked, enough := 0, errors.New("enough")
	_, err = h.look(ctx, q, history.Always(), &all, func(history.Series) error {
		if looked++; looked > maxAsked {
			return enough
		}
		return nil
	})
	switch in, _ := all.Range(); {
	case errors.Is(err, enough):
		return 0, 0, nil
	default:
		return in.From, in.To, err
	}
}

const maxUnreadable = 20 // series that cannot be read are named; further ones are only counted

// unreadable collects the series that an answer leaves out: a sum of what can be read would look like one of all.
type unreadable struct {
	count    int
	warnings []string // of the first that were met
}

// leftOut reports whether a series is to be left out, and notes it.
func (u *unreadable) leftOut(s *history.Series) bool {
	if s.Err == nil {
		return false
	}
	if u.count++; u.count > maxUnreadable {
		return true
	}
	name := "A series whose name cannot be read"
	if !s.Unnamed {
		name = ReadableName(s.ID.Domain, s.ID.Path, s.ID.Value) + " " + s.ID.Outcome.String()
	}
	u.warnings = append(u.warnings, fmt.Sprintf("%s is left out, as it cannot be read: %v", name, s.Err))
	return true
}

func (u *unreadable) appendTo(warnings []string) []string {
	slices.Sort(u.warnings)
	warnings = append(warnings, u.warnings...)
	if more := u.count - len(u.warnings); more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more series are left out, as they cannot be read: weir history verify "+
			"names them.", more))
	}
	return warnings
}

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
	cut *history.Cut
}

// shape returns how the question is answered if the stored buckets are those met.
func (q *query) shape(met *history.Met) shape {
	if q.points == 0 {
		return shape{Range: met.Widen(q.wanted)}
	}
	cut := met.Cut(q.wanted, q.points, q.zone)
	return shape{cut.Range(), &cut}
}

func (s *shape) equal(other *shape) bool {
	return s.Range == other.Range && (s.cut == nil || s.cut.Equal(other.cut))
}

// gather asks the store for all series of a question in one shape. What is stored decides which shapes are possible, so
// the first one is a guess, and begin is called anew for each further one: what its visitor was shown before is void.
func (h *History) gather(ctx context.Context, q *query, begin func(shape) func(history.Series) error) (shape, error) {
	var met history.Met
	for range maxRounds {
		try := q.shape(&met)
		if err := h.look(ctx, q, try, &met, begin(try)); err != nil {
			return shape{}, err
		}
		if now := q.shape(&met); now.equal(&try) {
			return try, nil
		}
	}
	return shape{}, errors.New("it is being moved to coarser tiers faster than it is read: ask again")
}

// look shows the visitor all series of a question, and remembers what it met. If no path is as asked for, the path asked
// for is understood as people are shown it, which is not escaped. A series without a name is shown once.
func (h *History) look(ctx context.Context, q *query, as shape, met *history.Met,
	visit func(history.Series) error) error {
	query, found := q.Query, false
	query.From, query.To = as.From, as.To
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
	err := h.store.Query(ctx, query, meet)
	if err != nil || found || query.Path == nil {
		return err
	}
	path := *query.Path
	query.Path = nil
	return h.store.Query(ctx, query, func(s history.Series) error {
		if !s.Unnamed && descriptors.ReadablePath(s.ID.Path) != path {
			return nil
		}
		return meet(s)
	})
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

package query

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxRounds is how often the store is asked again because it has coarser buckets than the shape allows.
const maxRounds = 12

// shape is the range that an answer is about, and how it is cut: without borders as stored.
type shape struct {
	history.Range
	cut  history.Cut
	step int64 // in force, in seconds, if one was asked for
}

// shapeFor returns how the question is answered if the stored buckets have this extent.
func (q *Question) shapeFor(stored *history.Extent) shape {
	switch {
	case q.step > 0:
		step := stored.StepWidth(q.step)
		cut := stored.Step(q.Range, step, q.zone)
		return shape{cut.Range(), cut, step}
	case q.points > 0:
		cut := stored.Cut(q.Range, q.points, q.zone)
		return shape{cut.Range(), cut, 0}
	}
	return shape{Range: stored.Widen(q.Range, q.zone)}
}

// result is what was read to answer a question.
type result struct {
	shape
	stored     history.Extent // of the series that can be read, of all shapes that were tried
	met        history.Extent // of the same, in this shape
	found      bool           // a series that was asked for, with hits in the range or not
	unreadable Unreadable     // those left out
}

// gather reads all series of a question in one shape, and calls visit with those that can be read. The stored buckets
// decide which shapes are possible, so the first shape is a guess. For each, begin is called first: what was visited in
// another is void.
func (h *History) gather(ctx context.Context, q *Question, begin func(shape), visit func(history.Series) error) (result, error) {
	var r result
	for range maxRounds {
		r.shape, r.unreadable, r.met = q.shapeFor(&r.stored), Unreadable{}, history.Extent{}
		begin(r.shape)
		var err error
		r.found, err = h.Each(ctx, q, r.Range, func(s history.Series) error {
			if s.Err != nil {
				r.unreadable.Add(&s)
				return nil
			}
			r.stored.Add(s.Points)
			r.met.Add(s.Points)
			return visit(s)
		})
		if err != nil {
			return result{}, err
		}
		if next := q.shapeFor(&r.stored); next.Range == r.Range && next.cut.Equal(&r.cut) {
			return r, nil
		}
	}
	return result{}, errors.New("it is being moved to coarser tiers faster than it is read: ask again")
}

// Each calls visit with each series of a question, in a range, and reports whether there were any with a name. If no
// path and value are as asked for, they are understood as people are shown them, which is not escaped. A series without
// a name is shown once.
func (h *History) Each(ctx context.Context, q *Question, in history.Range, visit func(history.Series) error) (found bool, err error) {
	query := q.Query
	query.From, query.To = in.From, in.To
	unnamed := make(map[string]bool) // by their errors
	for {
		err = h.store.Query(ctx, query, func(s history.Series) error {
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

// maxProbed is how many series are read as a whole to say where hits are, because a range has none.
const maxProbed = 1000

// maxCompared is how many series are looked at for a value like one that is not stored.
const maxCompared = 10_000

var errTooManySeries = errors.New("too many series")

// Metadata is what answers say of the range and of what they were made of. All times are Unix seconds.
type Metadata struct {
	Origin
	From       int64    `json:"from"`                 // that asked for, widened to whole buckets
	To         int64    `json:"to"`                   // exclusive
	Step       int64    `json:"step,omitempty"`       // seconds, of the buckets; 0, and left out, unless a step was asked for
	Since      int64    `json:"since,omitempty"`      // where the first hits are stored: of the range, or of all time if it has none
	Until      int64    `json:"until,omitempty"`      // and where the last ones end; a curve with hits leaves both out
	NoSeries   bool     `json:"no_series,omitempty"`  // nothing of what is asked for was ever stored
	Lag        int64    `json:"lag,omitempty"`        // seconds that hits take at most until they are stored, if the range ends in them
	AskedFrom  int64    `json:"asked_from,omitempty"` // the range that was asked for, if From, or To and not beyond now, is a minute or more outside it
	AskedTo    int64    `json:"asked_to,omitempty"`
	Warnings   []string `json:"warnings"`
	Unreadable int      `json:"unreadable"` // series that cannot be read, and are left out: a warning names one
}

// metadata describes an answer, which perhaps shows personal values. Of one without hits it says where there are some.
func (h *History) metadata(ctx context.Context, q *Question, r *result, personal bool, warnings ...string) (Metadata, error) {
	a := Metadata{From: r.From, To: r.To, Step: r.step, NoSeries: !r.found && r.unreadable.Count == 0, Unreadable: r.unreadable.Count}
	if lag := int64(h.FlushInterval.Seconds()); q.Range.To > q.Now-lag {
		a.Lag = lag
	}
	if max(q.Range.From-r.From, min(r.To, q.Now+1)-q.Range.To) >= minute {
		a.AskedFrom, a.AskedTo = q.Range.From, q.Range.To
	}
	a.Warnings = append(append([]string{}, warnings...), r.unreadable.Warnings()...)
	if a.NoSeries {
		unknown, err := h.UnknownValue(ctx, q)
		if err != nil {
			return a, err
		}
		a.Warnings = append(a.Warnings, unknown...)
	} else if (personal || q.Value != nil && !r.found) && history.HidesValues(ctx) {
		a.Warnings = append(a.Warnings, HiddenNotice)
	}
	stored, err := h.storedRange(ctx, q, r)
	a.Since, a.Until = stored.From, stored.To
	return a, err
}

// UnknownValue returns a sentence if the value of a question without series is stored for none of its rules: how values are
// written, with the one that is most like it. Who may not read values is told that instead.
func (h *History) UnknownValue(ctx context.Context, q *Question) ([]string, error) {
	if q.Value == nil {
		return nil, nil
	}
	if history.HidesValues(ctx) {
		return []string{HiddenNotice}, nil
	}
	all, near, series := *q, descriptors.Nearest{Wanted: *q.Value}, 0
	all.Value, all.Outcomes = nil, nil
	found, err := h.Each(ctx, &all, history.Range{}, func(s history.Series) error {
		if series++; series > maxCompared {
			return errTooManySeries
		}
		if history.IsPersonal(s.ID.Value) {
			near.Add(descriptors.ReadablePath(s.ID.Value))
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errTooManySeries):
		return nil, err
	case near.Found == "" && found:
		return []string{"No value is kept there: value_to_metric or detailed_metric of a rule keeps its values."}, nil
	case near.Found == "" || near.Found == descriptors.ReadablePath(*q.Value):
		return nil, nil
	}
	return []string{fmt.Sprintf("There is no value %q: values are written as key=value, and the most like it is %q.", *q.Value, near.Found)}, nil
}

// storedRange returns from when to when there are stored buckets of what is asked for: of the range if it has any, else
// of all time. It is empty if nothing is stored, or too many series are.
func (h *History) storedRange(ctx context.Context, q *Question, r *result) (history.Range, error) {
	if met, some := r.met.Range(); some {
		return met, nil
	}
	var all history.Extent
	series := 0
	_, err := h.Each(ctx, q, history.Always(), func(s history.Series) error {
		if series++; series > maxProbed {
			return errTooManySeries
		}
		if s.Err == nil {
			all.Add(s.Points)
		}
		return nil
	})
	if errors.Is(err, errTooManySeries) {
		return history.Range{}, nil
	}
	stored, _ := all.Range()
	return stored, err
}

// Unreadable are the series that an answer leaves out: a sum of what can be read would look like one of all.
type Unreadable struct {
	Count int
	first string // about the first
}

// Add notes a series that is left out, as its Err says.
func (u *Unreadable) Add(s *history.Series) {
	if u.Count++; u.Count > 1 {
		return
	}
	name := "A series whose name cannot be read"
	if !s.Unnamed {
		name = ReadableName(s.ID.Domain, s.ID.Path, s.ID.Value) + " " + s.ID.Outcome.String()
	}
	u.first = fmt.Sprintf("%s is left out, as it cannot be read: %v", name, s.Err)
}

// Warnings returns a sentence about the first, with how many there are, or nothing if there is none.
func (u *Unreadable) Warnings() []string {
	switch u.Count {
	case 0:
		return nil
	case 1:
		return []string{u.first}
	}
	return []string{fmt.Sprintf("%s; %d are left out in all (weir history verify names what is damaged)", u.first, u.Count)}
}

// ReadableName returns a series' name, but for its outcome, as people are shown it.
func ReadableName(domain, path, value string) string {
	name := domain + " " + descriptors.ReadablePath(path)
	if value != "" {
		name += " value " + descriptors.ReadablePath(value)
	}
	return name
}

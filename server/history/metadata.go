package historyapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// maxProbed is how many series are read to find where hits are, if the range has none.
const maxProbed = 1000

// maxCompared is how many series are searched for a value similar to an unknown one.
const maxCompared = 10_000

var errTooManySeries = errors.New("too many series")

// Metadata describes the range of an answer, and its sources. All times are Unix seconds.
type Metadata struct {
	Origin
	From       int64    `json:"from"`                 // the requested range, widened to whole buckets
	To         int64    `json:"to"`                   // exclusive
	Step       int64    `json:"step,omitempty"`       // seconds, of the buckets; 0 unless a step was requested
	Since      int64    `json:"since,omitempty"`      // begin of the first stored bucket: in the range or, if it has none, of all time
	Until      int64    `json:"until,omitempty"`      // end of the last one; a curve with hits has neither
	NoSeries   bool     `json:"no_series,omitempty"`  // no series matches the query
	Lag        int64    `json:"lag,omitempty"`        // seconds until hits are stored, at most, if that affects the range
	AskedFrom  int64    `json:"asked_from,omitempty"` // the requested range, if From or To (up to now) differs from it by a minute or more
	AskedTo    int64    `json:"asked_to,omitempty"`
	Warnings   []string `json:"warnings"`
	Unreadable int      `json:"unreadable"` // series that cannot be read, and are left out: a warning names one
}

// metadata describes an answer; personal says that it has personal values. If there are no hits in the range, it says
// where there are some.
func (h *History) metadata(ctx context.Context, q *query, g *history.GatherResult, personal bool, warnings ...string) (Metadata, error) {
	a := Metadata{From: g.From, To: g.To, Step: g.Step, NoSeries: !g.Found && g.Unreadable.Count == 0, Unreadable: g.Unreadable.Count}
	if q.Range.To > q.now-h.lag {
		a.Lag = h.lag
	}
	if max(q.Range.From-g.From, min(g.To, q.now+1)-q.Range.To) >= history.Minute {
		a.AskedFrom, a.AskedTo = q.Range.From, q.Range.To
	}
	a.Warnings = append(append([]string{}, warnings...), g.Unreadable.Warnings()...)
	if a.NoSeries {
		unknown, err := h.unknownValue(ctx, q)
		if err != nil {
			return a, err
		}
		a.Warnings = append(a.Warnings, unknown...)
	} else if (personal || q.Value != nil && !g.Found) && history.HidesValues(ctx) {
		a.Warnings = append(a.Warnings, HiddenNotice)
	}
	stored, err := h.storedRange(ctx, q, g)
	a.Since, a.Until = stored.From, stored.To
	return a, err
}

// unknownValue returns a sentence if no rule of a query has its value: how values are written, and the most similar
// one. A client that may not read values gets HiddenNotice instead.
func (h *History) unknownValue(ctx context.Context, q *query) ([]string, error) {
	if q.Value == nil {
		return nil, nil
	}
	if history.HidesValues(ctx) {
		return []string{HiddenNotice}, nil
	}
	all, near, series := q.Query, descriptors.Nearest{Wanted: *q.Value}, 0
	all.Value, all.Outcomes = nil, nil
	found, err := all.Each(ctx, h.store, history.Range{}, func(s history.Series) error {
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

// storedRange returns the range from the first to the last stored bucket: in the requested range or, if it has none,
// of all time. It is empty if nothing is stored, or there are too many series.
func (h *History) storedRange(ctx context.Context, q *query, g *history.GatherResult) (history.Range, error) {
	if met, some := g.Visited.Range(); some {
		return met, nil
	}
	var all history.Extent
	series := 0
	_, err := q.Each(ctx, h.store, history.Always(), func(s history.Series) error {
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

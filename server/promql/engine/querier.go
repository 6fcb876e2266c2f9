package engine

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// querier reads series and labels between two moments, in Unix milliseconds. It implements [storage.Querier].
type querier struct {
	*run
	from, to int64
}

// Close implements [storage.Querier].
func (q *querier) Close() error { return nil }

// Select implements [storage.Querier]. The series are read before it returns, and come in order. For hints with the
// function "series" they have no samples, need not have any in the time that is asked for, and are no more than the
// hints' limit.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.tooNarrow() {
		return newSet(nil, &q.remarks, errTooNarrow)
	}
	if hints == nil {
		hints = &storage.SelectHints{Start: q.from, End: q.to}
	}
	s := selection{run: q.run, matchers: matchers, names: hints.Func == "series", most: hints.Limit, now: q.now}
	s.span(hints)
	err := s.limits()
	if err == nil {
		err = s.counted(ctx)
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return newSet(s.found, &q.remarks, err)
}

package engine

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
)

// querier reads series between two moments, in Unix milliseconds. It implements [storage.Querier].
type querier struct {
	storage.LabelQuerier // has none, as Prometheus's engine does not ask: labels are those of series
	run                  *run
	from, to             int64
}

// Select implements [storage.Querier]. The series are read before it returns, and come in order. For hints with the
// function "series" they have no samples, and need not have any in the time that is asked for.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.run.tooNarrow() {
		return newSet(nil, &q.run.remarks, errTooNarrow)
	}
	if hints == nil {
		hints = &storage.SelectHints{Start: q.from, End: q.to}
	}
	s := selection{run: q.run, matchers: matchers, names: hints.Func == "series"}
	s.span(hints)
	err := s.limits()
	if err == nil {
		err = s.counted(ctx)
	}
	return newSet(s.found, &q.run.remarks, err)
}

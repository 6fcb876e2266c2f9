package engine

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// querier reads series and labels between two moments, in Unix milliseconds. It implements [storage.Querier].
type querier struct {
	*run
	from, to int64
}

// Close implements [storage.Querier].
func (q *querier) Close() error { return nil }

// LabelValues implements [storage.LabelQuerier], which Prometheus's engine does not ask: labels are those of series.
func (q *querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames is as LabelValues.
func (q *querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Select implements [storage.Querier]. The series are read before it returns, and come in order. For hints with the
// function "series" they have no samples, and need not have any in the time that is asked for.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.tooNarrow() {
		return newSet(nil, &q.remarks, errTooNarrow)
	}
	if hints == nil {
		hints = &storage.SelectHints{Start: q.from, End: q.to}
	}
	s := selection{run: q.run, matchers: matchers, names: hints.Func == "series", now: q.now}
	s.span(hints)
	err := s.limits()
	if err == nil {
		err = s.counted(ctx)
	}
	return newSet(s.found, &q.remarks, err)
}

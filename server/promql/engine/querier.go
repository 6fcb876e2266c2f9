package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// querier reads for one query, and knows what it has read. It implements [storage.Queryable] and [storage.Querier]. One
// goroutine may use it at a time.
type querier struct {
	storage.LabelQuerier // has none, as Prometheus's engine does not ask: labels are those of series

	config   *Config
	now      int64         // Unix seconds
	lookback time.Duration // of the query

	samples  int                // that were selected, and what their labels take, in samples
	coarsest history.Tier       // of the buckets that were read
	damaged  history.Unreadable // the series that are left out
	growth   growth             // of what names take
}

func (q *querier) Querier(_, _ int64) (storage.Querier, error) { return q, nil }

// Select implements [storage.Querier]. The series are read before it returns, and come in order. For hints with the
// function "series" they have no samples, and need not have any in the time that is asked for.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if q.lookbackTooShort() {
		return newSet(nil, &q.damaged, errShortLookback)
	}
	s := q.newSelection(hints, matchers)
	err := s.addLimits()
	if err == nil {
		err = s.readHits(ctx)
	}
	return newSet(s.found, &q.damaged, err)
}

// lookbackTooShort reports whether the query met a bucket whose ends its lookback may not see.
func (q *querier) lookbackTooShort() bool { return lookbackFor(q.coarsest) > q.lookback }

var errShortLookback = errors.New("a bucket is wider than the lookback")

// phase is what Prometheus's engine names in its errors.
const phase = "query execution"

// spend counts what was read against the bound of the query.
func (q *querier) spend(samples int) error {
	if q.samples += samples; q.samples > q.config.MaxSamples {
		return promql.ErrTooManySamples(phase)
	}
	return nil
}

// readStore asks the store. Its error is Prometheus's own where the query's time is over, and where the store has failed.
func (q *querier) readStore(ctx context.Context, wanted history.Query, yield func(history.Series) error) error {
	var refused error // by yield
	err := q.config.Store.Query(ctx, wanted, func(s history.Series) error {
		if refused = ctx.Err(); refused == nil {
			refused = yield(s)
		}
		return refused
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return promql.ErrQueryTimeout(phase)
	case ctx.Err() != nil:
		return promql.ErrQueryCanceled(phase)
	case refused != nil:
		return refused
	}
	return promql.ErrStorage{Err: fmt.Errorf("reading the history: %w", err)}
}

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

// querier reads series for one query and counts them. It implements [storage.Queryable] and [storage.Querier], for one
// goroutine.
type querier struct {
	storage.LabelQuerier // nil: Prometheus's engine does not call it

	config   *Config
	now      int64         // Unix seconds
	lookback time.Duration // of the query

	samples  int                // selected, with the cost of labels
	coarsest history.Tier       // of all buckets read
	damaged  history.Unreadable // the series left out
	growth   growth             // of the cost of names
}

func (q *querier) Querier(_, _ int64) (storage.Querier, error) { return q, nil }

// Select implements [storage.Querier]. It reads the series before it returns, and sorts them. With the hint Func "series" they
// have no samples, and may have none in the given time.
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

// lookbackTooShort reports whether a bucket is so wide that the query's lookback may not reach its ends.
func (q *querier) lookbackTooShort() bool { return lookbackFor(q.coarsest) > q.lookback }

var errShortLookback = errors.New("a bucket is wider than the lookback")

// phase names the part of the evaluation in errors, as in Prometheus's engine.
const phase = "query execution"

// spend counts samples against the bound of the query.
func (q *querier) spend(samples int) error {
	if q.samples += samples; q.samples > q.config.MaxSamples {
		return promql.ErrTooManySamples(phase)
	}
	return nil
}

// readStore reads from the store. Its errors for a timeout and a failed store are Prometheus's own.
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

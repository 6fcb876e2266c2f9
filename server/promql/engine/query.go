package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// lookbackFor returns how far a query looks to either side for a sample where nothing that it meets is coarser than a
// tier. Wherever a moment lies in a bucket, both of its ends are then seen.
func lookbackFor(t history.Tier) time.Duration {
	return time.Duration(t.Width())*time.Second + time.Hour
}

// prepare makes a query of Prometheus's engine.
type prepare func(from storage.Queryable, o promql.QueryOpts) (promql.Query, error)

// execution is a query of Prometheus's, which begins again with a longer lookback when it meets a bucket that is too wide for it.
type execution struct {
	promql.Query
	engine  *Engine
	prepare prepare
	run     *run
}

// query parses a query.
func (e *Engine) query(p prepare) (promql.Query, error) {
	q := &execution{engine: e, prepare: p}
	return q, q.begin(lookbackFor(history.Minutes))
}

// begin prepares the query with a lookback, in place of the one that there was.
func (q *execution) begin(lookback time.Duration) error {
	r := q.engine.run(lookback)
	next, err := q.prepare(r, promql.NewPrometheusQueryOpts(false, lookback, nil))
	if err != nil {
		return err
	}
	statement, is := next.Statement().(*parser.EvalStmt)
	if !is {
		return fmt.Errorf("%s is not evaluated", next)
	}
	if q.Query != nil {
		q.Query.Close()
	}
	q.Query, q.run = next, r
	r.note(statement)
	return nil
}

// Exec implements [promql.Query].
func (q *execution) Exec(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithTimeout(ctx, q.engine.config.Timeout)
	defer cancel()
	result, err := q.exec(ctx)
	if err != nil {
		return &promql.Result{Err: err}
	}
	result.Err = plain(result.Err)
	return result
}

// exec executes the query, and again while it meets wider buckets than it looked for: three times more at most.
func (q *execution) exec(ctx context.Context) (*promql.Result, error) {
	most := q.engine.config.MaxSamples
	all, err := steps(q.run.statement, most)
	if err != nil {
		return nil, err
	}
	if q.run.made.cost(1, all) > most { // without any series: vector(1) has names made for it as well
		return nil, promql.ErrTooManySamples(where)
	}
	for {
		result := q.Query.Exec(ctx)
		if !q.run.tooNarrow() {
			return result, nil
		}
		if err := q.begin(lookbackFor(q.run.met)); err != nil {
			return nil, err
		}
	}
}

// plain returns the errors that Prometheus's engine ends a query with as it would return them itself, without what the
// reading of series has put around them.
func plain(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		switch inner.(type) {
		case promql.ErrTooManySamples, promql.ErrQueryTimeout, promql.ErrQueryCanceled, promql.ErrStorage:
			return inner
		}
	}
	return err
}

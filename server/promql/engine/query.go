package engine

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// lookbackFor returns how far a query looks to either side for a sample, if it meets no coarser tier. It reaches both ends of
// a bucket from any moment in it.
func lookbackFor(t history.Tier) time.Duration {
	return time.Duration(t.Width())*time.Second + time.Hour
}

// newQuery makes a query of Prometheus's engine.
type newQuery func(source storage.Queryable, o promql.QueryOpts) (promql.Query, error)

// execution is a [promql.Query] that begins again with a longer lookback when it meets a bucket too wide for it.
type execution struct {
	promql.Query
	engine   *Engine
	newQuery newQuery
	querier  *querier
}

// query parses a query.
func (e *Engine) query(n newQuery) (promql.Query, error) {
	q := &execution{engine: e, newQuery: n}
	return q, q.prepare(lookbackFor(history.Minutes))
}

// prepare replaces the query by one with another lookback.
func (q *execution) prepare(lookback time.Duration) error {
	source := q.engine.querier(lookback)
	next, err := q.newQuery(source, promql.NewPrometheusQueryOpts(false, lookback, nil))
	if err != nil {
		return err
	}
	if q.Query != nil {
		q.Query.Close()
	}
	q.Query, q.querier = next, source
	source.growth = growthOf(next.Statement().(*parser.EvalStmt).Expr)
	source.growth.text = len(next.String())
	return nil
}

// Exec executes the query, again with a longer lookback while it meets wider buckets: at most three times more.
func (q *execution) Exec(ctx context.Context) *promql.Result {
	ctx, cancel := context.WithTimeout(ctx, q.engine.config.Timeout)
	defer cancel()
	err := checkSteps(q.Statement().(*parser.EvalStmt), q.engine.config.MaxSamples)
	if err == nil {
		err = q.querier.spend(q.querier.growth.cost(0)) // for vector(1), which reads no name
	}
	for err == nil {
		result := q.Query.Exec(ctx)
		if !q.querier.lookbackTooShort() {
			return result
		}
		err = q.prepare(lookbackFor(q.querier.coarsest))
	}
	return &promql.Result{Err: err}
}

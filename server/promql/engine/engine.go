// Package engine evaluates PromQL over the history of hits, with Prometheus's engine. Where a bucket of the history
// begins or ends, the count of a series is exact, so rate and increase are exact between borders of buckets of any
// tier. README.md explains this, and which results are not exact.
package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
)

// Config configures an engine.
type Config struct {
	Store history.Store
	// Rules returns the rules in force, for the series of their limits.
	Rules func() []*descriptors.Rule
	Now   func() time.Time
	// MaxSamples is the most samples of 16 bytes that a query may read from the store, and the most that its evaluation
	// may hold, as Prometheus counts them. Names count as samples too. A query beyond it ends with
	// [promql.ErrTooManySamples]. It must be positive.
	MaxSamples int
	Timeout    time.Duration // of a query, which then ends with [promql.ErrQueryTimeout]; positive
	Log        *slog.Logger  // nil for none
}

// Engine evaluates queries over a history. It may be used concurrently, but bound the number of queries: each may hold
// much memory until its result is closed.
type Engine struct {
	config Config
	engine *promql.Engine
}

// subqueryStep is the default step of a subquery, in milliseconds: the history has nothing finer than a minute.
const subqueryStep = 60_000

// New returns an engine.
func New(c Config) *Engine {
	c.Store = history.HidingStore(c.Store)
	return &Engine{config: c, engine: promql.NewEngine(promql.EngineOpts{
		Logger: c.Log, MaxSamples: c.MaxSamples, Timeout: c.Timeout,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return subqueryStep },
		Parser:                   smoothing{NewParser()}})}
}

// Instant returns a query for a moment. Its error is one of parsing. Execute the query once; only that reads the
// history. ctx does not bound the execution.
func (e *Engine) Instant(ctx context.Context, text string, at time.Time) (promql.Query, error) {
	return e.query(func(source storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewInstantQuery(ctx, source, o, text, at)
	})
}

// Range returns a query for the moments from the first to the last at intervals of step, which is at least a
// millisecond. Its error is that of parsing.
func (e *Engine) Range(ctx context.Context, text string, from, to time.Time, step time.Duration) (promql.Query, error) {
	return e.query(func(source storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewRangeQuery(ctx, source, o, text, from, to, step)
	})
}

// Querier returns a reader of series, for one goroutine. Its context bounds the time, not the timeout of queries.
func (e *Engine) Querier() storage.Querier { return e.querier(lookbackFor(history.Days)) }

// querier returns the reader of one query.
func (e *Engine) querier(lookback time.Duration) *querier {
	return &querier{LabelQuerier: storage.NoopQuerier(), config: &e.config, now: max(e.config.Now().Unix(), 0), lookback: lookback}
}

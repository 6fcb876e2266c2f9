// Package engine evaluates PromQL over the history of hits, by Prometheus's own engine. Where a bucket of the history
// begins and ends, what a series had counted is exact, so that rate and increase are exact between borders of buckets,
// whatever their tiers. README.md says how, and what is not exact.
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

// Config is what an engine evaluates over, and its bounds.
type Config struct {
	Store history.Store
	// Rules returns the rules in force, for the series of their limits.
	Rules func() []*descriptors.Rule
	Now   func() time.Time
	// MaxSamples is how many samples of 16 bytes a query may read from the store, and as many its evaluation may hold at
	// a time, as Prometheus counts them. Names take up samples as well. A query beyond it ends with
	// [promql.ErrTooManySamples]. It must be positive.
	MaxSamples int
	Timeout    time.Duration // of a query, which then ends with [promql.ErrQueryTimeout]; positive
	Log        *slog.Logger  // nil for none
}

// Engine evaluates queries over a history, for any number of goroutines. A query may hold much memory while it runs and
// until its result is closed: bound how many there are at a time.
type Engine struct {
	config Config
	engine *promql.Engine
}

// subqueryStep is what a subquery without a step has, in milliseconds: nothing is kept finer than a minute.
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

// Instant returns a query for a moment. Its error is the query's own: of parsing. Nothing is read before the query is
// executed, which may be done once. The context has no part in that.
func (e *Engine) Instant(ctx context.Context, text string, at time.Time) (promql.Query, error) {
	return e.query(func(source storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewInstantQuery(ctx, source, o, text, at)
	})
}

// Range returns a query for the moments from the first to the last, a step apart, of a millisecond at least. Its error is
// the query's own.
func (e *Engine) Range(ctx context.Context, text string, from, to time.Time, step time.Duration) (promql.Query, error) {
	return e.query(func(source storage.Queryable, o promql.QueryOpts) (promql.Query, error) {
		return e.engine.NewRangeQuery(ctx, source, o, text, from, to, step)
	})
}

// Querier returns what reads the series that match. It may be used by one goroutine at a time. What it reads is bounded
// by its context, not by the timeout of queries.
func (e *Engine) Querier() storage.Querier { return e.querier(lookbackFor(history.Days)) }

// querier returns what reads for one query, as of now.
func (e *Engine) querier(lookback time.Duration) *querier {
	return &querier{LabelQuerier: storage.NoopQuerier(), config: &e.config, now: max(e.config.Now().Unix(), 0), lookback: lookback}
}

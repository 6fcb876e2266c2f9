package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/weirproxy/weir/backend/history"
)

// run is what reads for one query, and what it has read. It implements [storage.Queryable] and [storage.Querier]. One
// goroutine may use it at a time.
type run struct {
	storage.LabelQuerier // has none, as Prometheus's engine does not ask: labels are those of series

	config   *Config
	now      int64         // Unix seconds
	lookback time.Duration // of the query

	statement *parser.EvalStmt // the query, nil where only names are read
	// selectors are those of the query, by their first matcher, which Prometheus's engine hands on as it is.
	selectors map[*labels.Matcher]selector
	made      names        // by the query, of those that it reads
	held      int          // samples that all that was selected holds, and names, in samples
	met       history.Tier // the coarsest that holds a moment of the query
	notes     notes
}

// Querier implements [storage.Queryable].
func (r *run) Querier(_, _ int64) (storage.Querier, error) { return r, nil }

// Select implements [storage.Querier]. The series are read before it returns, and come in order. For hints with the
// function "series" they have no samples, and need not have any in the time that is asked for.
func (r *run) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if r.tooNarrow() {
		return newSet(nil, &r.notes, errTooNarrow)
	}
	s := selection{run: r, matchers: matchers, names: hints.Func == "series"}
	s.span(hints)
	err := s.addLimits()
	if err == nil {
		err = s.readHits(ctx)
	}
	return newSet(s.found, &r.notes, err)
}

// note keeps what the query's selectors look like, which the engine does not tell when it reads them, and what it makes
// of names.
func (r *run) note(s *parser.EvalStmt) {
	r.statement, r.selectors, r.made = s, make(map[*labels.Matcher]selector), namesOf(s.Expr)
	parser.Inspect(s.Expr, func(n parser.Node, path []parser.Node) error {
		if v, is := n.(*parser.VectorSelector); is && len(v.LabelMatchers) > 0 {
			r.selectors[v.LabelMatchers[0]] = newSelector(v, path)
		}
		return nil
	})
}

// tooNarrow reports whether the query met a bucket that its lookback may not reach out of.
func (r *run) tooNarrow() bool { return lookbackFor(r.met) > r.lookback }

var errTooNarrow = errors.New("a bucket is wider than the lookback")

// where is the place that Prometheus's engine names in its errors.
const where = "query execution"

// hold counts what was read against the bound of the query.
func (r *run) hold(samples int) error {
	if r.held += samples; r.held > r.config.MaxSamples {
		return promql.ErrTooManySamples(where)
	}
	return nil
}

// ask asks the store. Its error is Prometheus's own where the query's time is over, and where the store has failed.
func (r *run) ask(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	var refused error // by yield
	err := r.config.Store.Query(ctx, q, func(s history.Series) error {
		if refused = ctx.Err(); refused == nil {
			refused = yield(s)
		}
		return refused
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return promql.ErrQueryTimeout(where)
	case ctx.Err() != nil:
		return promql.ErrQueryCanceled(where)
	case refused != nil:
		return refused
	}
	return promql.ErrStorage{Err: fmt.Errorf("reading the history: %w", err)}
}

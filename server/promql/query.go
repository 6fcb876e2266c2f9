package promql

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/weirproxy/weir/backend/history"
	historyapi "github.com/weirproxy/weir/server/history"
)

const (
	// maxNotes is the most warnings, and the most infos, of an answer.
	maxNotes = 10
	// maxSteps is the most points of a series in an answer, as in Prometheus.
	maxSteps = 11_000
)

// query answers for a moment.
func (h *Handler) query(r *request) *answer {
	at := h.config.Now()
	if text := r.FormValue("time"); text != "" {
		var err error
		at, err = parseTime(text)
		r.refuse("time", err)
	}
	return h.evaluate(r, func(ctx context.Context, text string) (promql.Query, error) {
		return h.engine.Instant(ctx, text, at)
	})
}

// queryRange evaluates an expression at the moments of a range.
func (h *Handler) queryRange(r *request) *answer {
	from, err := parseTime(r.FormValue("start"))
	r.refuse("start", err)
	to, err := parseTime(r.FormValue("end"))
	if err == nil && to.Before(from) {
		err = errors.New("end timestamp must not be before start time")
	}
	r.refuse("end", err)
	step, err := parseDuration(r.FormValue("step"))
	if err == nil && step < time.Millisecond {
		err = errors.New("zero or negative query resolution step widths are not accepted. Try a positive integer")
	}
	r.refuse("step", err)
	// As a Duration the range might not fit.
	if length := float64(to.UnixMilli()) - float64(from.UnixMilli()); r.refused == nil && length >= (maxSteps+1)*step.Seconds()*1000 {
		return refuse(badData, "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	}
	return h.evaluate(r, func(ctx context.Context, text string) (promql.Query, error) {
		return h.engine.Range(ctx, text, from, to, step)
	})
}

// evaluate answers with the result of a query.
func (h *Handler) evaluate(r *request, newQuery func(context.Context, string) (promql.Query, error)) *answer {
	ctx, text := r.Context(), r.FormValue("query")
	if r.refused != nil {
		return r.refused
	}
	q, err := newQuery(ctx, text)
	if err != nil {
		r.refuse("query", err)
		return r.refused
	}
	result := q.Exec(ctx)
	warnings, infos := result.Warnings.AsStrings(text, maxNotes, maxNotes)
	if result.Err != nil {
		q.Close()
		a := fail(result.Err)
		a.warnings, a.infos = warnings, infos
		return a
	}
	if history.HidesValues(ctx) && strings.Contains(text, "value") {
		infos = append(infos, historyapi.HiddenNotice)
	}
	return &answer{warnings: warnings, infos: infos, close: q.Close, data: func(e *encoder) {
		e.raw(`{"resultType":`)
		e.json(string(result.Value.Type()))
		e.raw(`,"result":`)
		e.result(result.Value)
		e.raw("}")
	}}
}

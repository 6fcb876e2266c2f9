package promql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
)

const (
	maxReadingTime = 30 * time.Second // for a client to read an answer, which is held meanwhile
	maxWaitingTime = 30 * time.Second // for a turn
)

// errBusy is the error of a request whose turn did not come.
var errBusy = errors.New("too many queries of the history at a time: ask again")

// errorType is an error's type, as Prometheus names it, with the status that it has there.
type errorType struct {
	name   string
	status int
}

var (
	badData    = errorType{"bad_data", http.StatusBadRequest}
	execution  = errorType{"execution", http.StatusUnprocessableEntity}
	timedOut   = errorType{"timeout", http.StatusServiceUnavailable}
	canceled   = errorType{"canceled", 499} // the client has hung up: nobody sees it
	internal   = errorType{"internal", http.StatusInternalServerError}
	notFound   = errorType{"not_found", http.StatusNotFound}
	notAllowed = errorType{"bad_data", http.StatusMethodNotAllowed}
	tooBusy    = errorType{"unavailable", http.StatusServiceUnavailable}
)

// answer is data, or why there is none.
type answer struct {
	errorType errorType
	err       error // nil for data

	data            func(*encoder)
	close           func() // frees what data holds, once the answer is made; nil for nothing
	warnings, infos []string
}

// refuse returns an answer without data. An error among the arguments is wrapped by %w.
func refuse(e errorType, format string, args ...any) *answer {
	return &answer{errorType: e, err: fmt.Errorf(format, args...)}
}

// fail returns the answer to a query that has failed.
func fail(err error) *answer {
	return &answer{errorType: typeOf(err), err: err}
}

// typeOf tells a failed query's error apart, as Prometheus does.
func typeOf(err error) errorType {
	var stopped promql.ErrQueryCanceled
	var late promql.ErrQueryTimeout
	var storage promql.ErrStorage
	switch {
	case errors.Is(err, errBusy):
		return tooBusy
	case errors.As(err, &stopped), errors.Is(err, context.Canceled):
		return canceled
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return timedOut
	case errors.As(err, &storage):
		return internal
	}
	return execution
}

// constant always answers with the same JSON.
func constant(data string) func(*request) *answer {
	return func(*request) *answer { return &answer{data: func(e *encoder) { e.raw(data) }} }
}

// atOnce returns a handler of requests that read nothing but their parameters.
func (h *Handler) atOnce(serve func(*request) *answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, a := h.read(w, r)
		if a == nil {
			a = serve(request)
		}
		h.write(w, a)
	}
}

// inTurn returns a handler of requests that read the history or parse a query, of which few are answered at a time. Those
// that wait have not been read: their parameters are not in memory.
func (h *Handler) inTurn(serve func(*request) *answer) http.HandlerFunc {
	handle := h.atOnce(func(r *request) *answer {
		ctx, cancel := context.WithTimeout(r.Context(), h.config.Timeout)
		defer cancel()
		r.Request = r.WithContext(ctx)
		return serve(r)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.turns.Acquire(r.Context(), maxWaitingTime) {
			h.write(w, fail(cmp.Or(r.Context().Err(), errBusy)))
			return
		}
		defer h.turns.Release()
		handle(w, r)
	}
}

// write writes an answer.
func (h *Handler) write(w http.ResponseWriter, a *answer) {
	// The server's own bound began with the request. A server that cannot be told keeps it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime))
	w.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	if a.err != nil {
		status = a.errorType.status
		if a.errorType == tooBusy {
			w.Header().Set("Retry-After", strconv.Itoa(int(maxWaitingTime.Seconds())))
		}
	}
	e := &encoder{to: w, status: status}
	e.body(a)
	if a.close != nil {
		a.close()
	}
	e.flush()
}

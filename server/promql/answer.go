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
	maxReadingTime = 30 * time.Second // for a client to read an answer, which stays in memory meanwhile
	maxWaitingTime = 30 * time.Second // for the semaphore
)

// errBusy is the error of a request that waited for maxWaitingTime.
var errBusy = errors.New("too many queries of the history at a time: ask again")

// errorType is a type of errors in Prometheus's API, with its status there.
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

// answer is data or an error.
type answer struct {
	errorType errorType
	err       error // nil for data

	data            func(*encoder)
	close           func() // releases data when the answer is written; may be nil
	warnings, infos []string
}

// refuse returns an answer with an error, formatted as by fmt.Errorf.
func refuse(e errorType, format string, args ...any) *answer {
	return &answer{errorType: e, err: fmt.Errorf(format, args...)}
}

// fail returns the answer to a failed query.
func fail(err error) *answer {
	return &answer{errorType: typeOf(err), err: err}
}

// typeOf returns the type that Prometheus gives to a query's error.
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

// constant answers with the same JSON each time.
func constant(data string) func(*request) *answer {
	return func(*request) *answer { return &answer{data: func(e *encoder) { e.raw(data) }} }
}

// unbounded returns a handler of cheap requests, which read only their parameters.
func (h *Handler) unbounded(serve func(*request) *answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, a := h.read(w, r)
		if a == nil {
			a = serve(request)
		}
		h.write(w, a)
	}
}

// bounded returns a handler of requests that read the history or parse a query: the semaphore bounds them. Parameters are
// read afterwards, so that waiting requests take no memory.
func (h *Handler) bounded(serve func(*request) *answer) http.HandlerFunc {
	handle := h.unbounded(func(r *request) *answer {
		ctx, cancel := context.WithTimeout(r.Context(), h.config.Timeout)
		defer cancel()
		r.Request = r.WithContext(ctx)
		return serve(r)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.semaphore.Acquire(r.Context(), maxWaitingTime) {
			h.write(w, fail(cmp.Or(r.Context().Err(), errBusy)))
			return
		}
		defer h.semaphore.Release()
		handle(w, r)
	}
}

// write writes an answer.
func (h *Handler) write(w http.ResponseWriter, a *answer) {
	// This replaces the server's own deadline, which began with the request.
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

package promql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
)

const (
	maxReadingTime = 30 * time.Second // for a client to read an answer, which is held meanwhile
	maxWaiting     = 64               // requests that wait for a turn, or for their client to read a small answer
	maxWaitingTime = 30 * time.Second // for a turn
)

// errBusy is the error of a request whose turn did not come.
var errBusy = errors.New("too many queries of the history at a time: ask again")

// results are how queries end, as metrics name it.
var results = []string{"ok", "bad_data", "execution", "timeout", "canceled", "internal", "busy"}

// kind is an error's type, as Prometheus names it, with the status that it has there.
type kind struct {
	name   string
	status int
	result string // one of results
}

// clientGone is the status for a client that has hung up, which nobody sees.
const clientGone = 499

var (
	badData    = kind{"bad_data", http.StatusBadRequest, "bad_data"}
	execution  = kind{"execution", http.StatusUnprocessableEntity, "execution"}
	timedOut   = kind{"timeout", http.StatusServiceUnavailable, "timeout"}
	canceled   = kind{"canceled", clientGone, "canceled"}
	internal   = kind{"internal", http.StatusInternalServerError, "internal"}
	notFound   = kind{"not_found", http.StatusNotFound, "bad_data"}
	notAllowed = kind{"bad_data", http.StatusMethodNotAllowed, "bad_data"}
	tooBusy    = kind{"unavailable", http.StatusServiceUnavailable, "busy"}
)

// answer is data, or why there is none.
type answer struct {
	kind kind
	err  error // nil for data

	data            func(*encoder)
	warnings, infos []string
	// done are called once the answer is all made: they free what data holds, and give turns back.
	done []func()
}

// refuse returns an answer without data. An error among the arguments is wrapped by %w.
func refuse(k kind, format string, args ...any) *answer {
	return &answer{kind: k, err: fmt.Errorf(format, args...)}
}

// fail returns the answer to a query that has failed.
func fail(err error) *answer {
	return &answer{kind: kindOf(err), err: err}
}

// kindOf tells a failed query's error apart, as Prometheus does.
func kindOf(err error) kind {
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

// inTurn returns a handler of requests that read the history or parse a query, of which few are answered at a time. A
// client that sends its parameters slowly takes nobody's place.
func (h *Handler) inTurn(serve func(*request) *answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		parsed, a := h.read(w, r)
		if a != nil {
			h.end(w, r, a)
			return
		}
		select {
		case h.admitted <- struct{}{}:
			defer h.admitted.GiveBack()
		default:
			h.end(w, r, fail(errBusy))
			return
		}
		if !h.running.Take(r.Context(), maxWaitingTime) {
			h.end(w, r, fail(cmp.Or(r.Context().Err(), errBusy)))
			return
		}
		giveBack := sync.OnceFunc(h.running.GiveBack)
		defer giveBack()
		begin := time.Now()
		defer func() { h.busy.Add(int64(time.Since(begin))) }()
		ctx, cancel := context.WithTimeout(r.Context(), h.config.Timeout)
		defer cancel()
		parsed.Request = parsed.WithContext(ctx)
		a = serve(parsed)
		a.done = append(a.done, giveBack)
		h.end(w, r, a)
	}
}

// end counts how a request ended and answers it, in this order: the request with the next turn finds it counted.
func (h *Handler) end(w http.ResponseWriter, r *http.Request, a *answer) {
	result := "ok"
	if a.err != nil {
		result = a.kind.result
		h.config.Log.Debug("a query of the history failed", "path", clip(r.URL.Path), "query", clip(r.Form.Get("query")),
			"error", a.err)
	}
	h.answered[result].Add(1)
	h.write(w, a)
}

// write writes an answer. Once it is all made, its turn is over: a client that reads slowly holds nobody up, unless the
// answer is large.
func (h *Handler) write(w http.ResponseWriter, a *answer) {
	// The server's own bound began with the request. A server that cannot be told keeps it.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime))
	w.Header().Set("Content-Type", "application/json")
	status := http.StatusOK
	if a.err != nil {
		status = a.kind.status
		if a.kind == tooBusy {
			w.Header().Set("Retry-After", strconv.Itoa(int(maxWaitingTime.Seconds())))
		}
	}
	e := &encoder{to: w, status: status}
	e.answer(a)
	for _, done := range a.done {
		done()
	}
	e.flush()
}

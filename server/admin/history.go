package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/server/door"
)

const (
	maxQuestionTime = 5 * time.Minute  // for a question about the history, until its answer is made
	maxReadingTime  = 30 * time.Second // for the client to read its answer, which is held meanwhile
	maxWaitingTime  = 10 * time.Second // for a turn
	// maxAnswers is how many answers are made or read at a time, so that they never use up the limiter's memory.
	maxAnswers = 2
)

// errNoHistory is the answer where there is no history.
var errNoHistory = refuse(http.StatusNotFound,
	"This weir keeps no history: HISTORY=false is set, or its store did not open, which is logged.")

// errBusy is the answer to a question whose turn did not come.
var errBusy = busy(maxWaitingTime,
	"%d other questions about the history are being answered: ask again in %.0f seconds.", maxAnswers, maxWaitingTime.Seconds())

// registerHistory serves /api/v1/history, or answers there that there is none if h is nil.
func registerHistory(mux *http.ServeMux, h *query.History) {
	turns := make(door.Turns, maxAnswers)
	mux.HandleFunc("GET /api/v1/history", inTurn(h, turns, errBusy, answered((*query.History).Show)))
	mux.HandleFunc("GET /api/v1/history/top", inTurn(h, turns, errBusy, answered((*query.History).Top)))
	mux.HandleFunc("GET /api/v1/history/verify", inTurn(h, turns, errBusy, answered((*query.History).Verify)))
	mux.HandleFunc("GET /api/v1/history/export", inTurn(h, make(door.Turns, maxExports), errExporting, export))
}

// serveHistory answers a question. Its error is for a client that was sent nothing.
type serveHistory func(http.ResponseWriter, *http.Request, *query.History, query.Parameters) error

// inTurn returns a handler that serves questions in their turn; busy refuses one whose turn does not come.
func inTurn(h *query.History, turns door.Turns, busy error, serve serveHistory) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		values, err := queryOf(r)
		switch {
		case err != nil:
		case h == nil:
			err = errNoHistory
		case !turns.Take(r.Context(), maxWaitingTime):
			err = busy
		default:
			defer turns.GiveBack()
			err = serve(w, r, h, values)
		}
		if err != nil {
			status, text := describe(w, err, "The history cannot be read: ")
			w.WriteHeader(status)
			_ = query.WriteJSON(w, map[string]string{"error": text})
		}
	}
}

// answered writes answers in JSON.
func answered[Answer any](answer func(*query.History, context.Context, query.Parameters) (Answer, error)) serveHistory {
	return func(w http.ResponseWriter, r *http.Request, h *query.History, values query.Parameters) error {
		ctx, cancel := context.WithTimeout(r.Context(), maxQuestionTime)
		defer cancel()
		a, err := answer(h, ctx, values)
		// The server's own bound began with the request. A server that cannot be told keeps it.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime))
		if err == nil {
			_ = query.WriteJSON(w, a) // the client is gone, or too slow, if this fails
		}
		return err
	}
}

// registerQueries serves /prometheus/, or answers there as Prometheus does that there is nothing if h is nil.
func registerQueries(mux *http.ServeMux, h http.Handler) {
	if h == nil {
		h = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusNotFound)
			_ = query.WriteJSON(w, map[string]string{"status": "error", "errorType": "not_found",
				"error": "This weir answers no queries: it keeps no history, or HISTORY_QUERY=false is set."})
		})
	}
	mux.Handle("/prometheus/", h)
}

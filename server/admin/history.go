package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproxy/weir/server/connlimit"
	historyapi "github.com/weirproxy/weir/server/history"
)

const (
	answerTimeout = 5 * time.Minute  // of a query of the history
	readTimeout   = 30 * time.Second // for the client to read its answer, which stays in memory meanwhile
	queueTimeout  = 10 * time.Second // for the semaphore
	// maxHistoryAnswers is how many answers may be made or read concurrently, so that they never use up the limiter's
	// memory.
	maxHistoryAnswers = 2
)

// historyError introduces errors of a history's store.
const historyError = "The history cannot be read: "

// errNoHistory returns the refusal of a weir without a history.
func (p *Parts) errNoHistory() error {
	return refuse(http.StatusNotFound, "This weir keeps no history: %s.", p.NoHistory)
}

// registerHistory serves /api/v1/history, or the error that there is no history.
func registerHistory(mux *http.ServeMux, p *Parts) {
	h := p.History
	semaphore := make(connlimit.Semaphore, maxHistoryAnswers)
	handle := func(pattern string, ask http.Handler) {
		mux.Handle(pattern, semaphore.Bound(ask, answerTimeout+readTimeout))
	}
	handle("GET /api/v1/history", historyHandler(p, h.Show))
	handle("GET /api/v1/history/top", historyHandler(p, h.Top))
	handle("GET /api/v1/history/verify", historyHandler(p, h.Verify))
	mux.HandleFunc("GET /api/v1/history/export", exportHandler(p))
}

// historyHandler answers one kind of query of the history.
func historyHandler[A any](p *Parts, answer func(context.Context, historyapi.Parameters) (A, error)) http.Handler {
	return serveJSON(historyError, func(w http.ResponseWriter, r *http.Request) (any, error) {
		parameters, err := parametersOf(r)
		if err != nil {
			return nil, err
		}
		if p.History == nil {
			return nil, p.errNoHistory()
		}
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		a, err := answer(ctx, parameters)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(readTimeout)) // replaces the server's, which began with the request
		return a, err
	})
}

package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproxy/weir/server/connlimit"
	historyapi "github.com/weirproxy/weir/server/history"
)

const (
	maxQuestionTime = 5 * time.Minute  // for a question about the history, until its answer is made
	maxReadingTime  = 30 * time.Second // for the client to read its answer, which is held meanwhile
	maxWaitingTime  = 10 * time.Second // for a turn
	// maxHistoryAnswers is how many answers are made or read at a time, so that they never use up the limiter's memory.
	maxHistoryAnswers = 2
)

// historyError introduces the errors of a history's store.
const historyError = "The history cannot be read: "

// errNoHistory returns the answer where there is no history.
func (p *Parts) errNoHistory() error {
	return refuse(http.StatusNotFound, "This weir keeps no history: %s.", p.NoHistory)
}

// registerHistory serves /api/v1/history, or answers there that there is none.
func registerHistory(mux *http.ServeMux, p *Parts) {
	h := p.History
	turns := make(connlimit.Semaphore, maxHistoryAnswers)
	inTurn := func(pattern string, ask http.Handler) {
		mux.Handle(pattern, turns.Bound(ask, maxQuestionTime+maxReadingTime))
	}
	inTurn("GET /api/v1/history", historyHandler(p, h.Show))
	inTurn("GET /api/v1/history/top", historyHandler(p, h.Top))
	inTurn("GET /api/v1/history/verify", historyHandler(p, h.Verify))
	mux.HandleFunc("GET /api/v1/history/export", exportHandler(p))
}

// historyHandler answers questions about a history.
func historyHandler[A any](p *Parts, answer func(context.Context, historyapi.Parameters) (A, error)) http.Handler {
	return serveJSON(historyError, func(w http.ResponseWriter, r *http.Request) (any, error) {
		parameters, err := parametersOf(r)
		if err != nil {
			return nil, err
		}
		if p.History == nil {
			return nil, p.errNoHistory()
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxQuestionTime)
		defer cancel()
		a, err := answer(ctx, parameters)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime)) // else the bound of its making holds
		return a, err
	})
}

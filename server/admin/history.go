package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/server/connlimit"
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

// errNoHistory is the answer where there is no history.
var errNoHistory = refuse(http.StatusNotFound,
	"This weir keeps no history. As ratelimit it is off by default: set REDIS_HISTORY_URL. Else HISTORY=false is set, or its "+
		"store did not open, which is logged.")

// registerHistory serves /api/v1/history, or answers there that there is none if h is nil.
func registerHistory(mux *http.ServeMux, h *query.History) {
	turns := make(connlimit.Semaphore, maxHistoryAnswers)
	inTurn := func(pattern string, ask http.Handler) {
		mux.Handle(pattern, turns.Bound(ask, maxQuestionTime+maxReadingTime))
	}
	inTurn("GET /api/v1/history", historyHandler(h, h.Show))
	inTurn("GET /api/v1/history/top", historyHandler(h, h.Top))
	inTurn("GET /api/v1/history/verify", historyHandler(h, h.Verify))
	mux.HandleFunc("GET /api/v1/history/export", exportHandler(h))
}

// historyHandler answers questions about a history.
func historyHandler[A any](h *query.History, answer func(context.Context, query.Parameters) (A, error)) http.Handler {
	return serveJSON(historyError, func(w http.ResponseWriter, r *http.Request) (any, error) {
		parameters, err := parametersOf(r)
		if err != nil {
			return nil, err
		}
		if h == nil {
			return nil, errNoHistory
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxQuestionTime)
		defer cancel()
		a, err := answer(ctx, parameters)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime)) // else the bound of its making holds
		return a, err
	})
}

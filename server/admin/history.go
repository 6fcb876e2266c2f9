package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirproxy/weir/server/curves"
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
var errBusy = refuse(http.StatusServiceUnavailable,
	"%d other questions about the history are being answered: ask again in %.0f seconds.", maxAnswers, maxWaitingTime.Seconds())

// turns lets maxAnswers answers be made or read at a time; the others wait.
type turns chan struct{}

// take waits for a turn, which the caller must give back. Its error is errBusy.
func (t turns) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxWaitingTime)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}

func (t turns) giveBack() { <-t }

// registerHistory serves /api/v1/history, or answers there that there is none if h is nil.
func registerHistory(mux *http.ServeMux, h *curves.History) {
	t := make(turns, maxAnswers)
	mux.HandleFunc("GET /api/v1/history", serveHistory(h, t, (*curves.History).Show,
		"domain", "path", "outcome", "value", "values", "from", "to", "points", "step", "tz"))
	mux.HandleFunc("GET /api/v1/history/top", serveHistory(h, t, (*curves.History).Top,
		"domain", "path", "value", "values", "from", "to", "tz", "by", "n"))
	mux.HandleFunc("GET /api/v1/history/verify", serveHistory(h, t, (*curves.History).Verify,
		"domain", "path", "outcome", "value"))
	registerExport(mux, h)
}

// serveHistory returns a handler that reads a question from the parameters of these names, and answers it in its turn.
func serveHistory[Answer interface{ WriteJSON(io.Writer) error }](h *curves.History, t turns,
	answer func(*curves.History, context.Context, curves.Question) (Answer, error), names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		values, err := queryOf(r)
		if err == nil && h == nil {
			err = errNoHistory
		}
		var q curves.Question
		if err == nil {
			q, err = readQuestion(values, names)
		}
		if err == nil {
			err = t.take(r.Context())
		}
		var a Answer
		if err == nil {
			defer t.giveBack()
			ctx, cancel := context.WithTimeout(r.Context(), maxQuestionTime)
			defer cancel()
			a, err = answer(h, ctx, q)
		}
		// The server's own bound began with the request. A server that cannot be told keeps it.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxReadingTime))
		if err != nil {
			refuseHistory(w, err)
			return
		}
		_ = a.WriteJSON(w) // the client is gone, or too slow, if this fails
	}
}

func refuseHistory(w http.ResponseWriter, err error) {
	if errors.Is(err, errBusy) {
		w.Header().Set("Retry-After", strconv.Itoa(int(maxWaitingTime.Seconds())))
	}
	status, text := describe(err, "The history cannot be read: ")
	w.WriteHeader(status)
	_ = curves.WriteJSON(w, map[string]string{"error": text})
}

func readQuestion(values url.Values, names []string) (curves.Question, error) {
	if err := checkNames(values, names...); err != nil {
		return curves.Question{}, err
	}
	points, err := number(values, "points", 0, curves.MaxPoints)
	if err != nil {
		return curves.Question{}, err
	}
	each, err := boolean(values, "values", true)
	if err != nil {
		return curves.Question{}, err
	}
	rows, err := number(values, "n", 20, curves.MaxRows)
	return curves.Question{
		Merged: !each,
		Domain: values.Get("domain"), Path: values.Get("path"), Value: values.Get("value"), Outcome: values.Get("outcome"),
		From: values.Get("from"), To: values.Get("to"),
		Points: points, Step: values.Get("step"), Zone: values.Get("tz"), By: values.Get("by"), Rows: rows,
	}, err
}

// boolean reads true or false. A parameter that is empty is as good as none.
func boolean(values url.Values, name string, byDefault bool) (bool, error) {
	text := values.Get(name)
	if text == "" {
		return byDefault, nil
	}
	given, err := strconv.ParseBool(text)
	if err != nil {
		return false, refuse(http.StatusBadRequest, "%s must be true or false, not %q.", name, text)
	}
	return given, nil
}

// number reads a whole number from 1. A parameter that is empty is as good as none.
func number(values url.Values, name string, byDefault, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, curves.RefuseNumber(name, text, most)
	}
	return n, nil
}

package admin

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weirproxy/weir/server/curves"
)

const maxHistoryTime = 5 * time.Minute // for a question about the history, and the reading of its answer

// registerHistory serves /api/v1/history, or answers there that there is none if h is nil.
func registerHistory(mux *http.ServeMux, h *curves.History) {
	mux.HandleFunc("GET /api/v1/history", serveHistory(h, (*curves.History).Show,
		"domain", "path", "outcome", "value", "from", "to", "points", "tz"))
	mux.HandleFunc("GET /api/v1/history/top", serveHistory(h, (*curves.History).Top,
		"domain", "path", "value", "from", "to", "by", "n"))
	mux.HandleFunc("GET /api/v1/history/verify", serveHistory(h, (*curves.History).Verify,
		"domain", "path", "outcome", "value"))
}

// serveHistory returns a handler that reads a question from the parameters of these names, and answers it.
func serveHistory[Answer interface{ WriteJSON(io.Writer) error }](h *curves.History,
	answer func(*curves.History, context.Context, curves.Question) (Answer, error), names ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxHistoryTime)
		defer cancel()
		// The server's bound on the time of an answer is meant for small ones. A server that cannot be told keeps it.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxHistoryTime))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		values, err := queryOf(r)
		if err == nil && h == nil {
			err = refuse(http.StatusNotFound,
				"This weir keeps no history: HISTORY=false is set, or its store did not open, which is logged.")
		}
		var q curves.Question
		if err == nil {
			q, err = readQuestion(values, names)
		}
		var a Answer
		if err == nil {
			a, err = answer(h, ctx, q)
		}
		if err != nil {
			status, text := describe(err, "The history cannot be read: ")
			w.WriteHeader(status)
			_ = curves.WriteJSON(w, map[string]string{"error": text})
			return
		}
		_ = a.WriteJSON(w) // the client is gone if this fails
	}
}

func readQuestion(values url.Values, names []string) (curves.Question, error) {
	if err := checkNames(values, names...); err != nil {
		return curves.Question{}, err
	}
	points, err := number(values, "points", 0, curves.MaxPoints)
	if err != nil {
		return curves.Question{}, err
	}
	rows, err := number(values, "n", 20, curves.MaxRows)
	return curves.Question{
		Domain: values.Get("domain"), Path: values.Get("path"), Value: values.Get("value"), Outcome: values.Get("outcome"),
		From: values.Get("from"), To: values.Get("to"),
		Points: points, Zone: values.Get("tz"), By: values.Get("by"), Rows: rows,
	}, err
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

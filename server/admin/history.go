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

// maxHistoryTime bounds a question about the history, and the reading of its answer.
const maxHistoryTime = 5 * time.Minute

// historyAnswer is an answer that writes itself.
type historyAnswer interface{ WriteJSON(io.Writer) error }

// registerHistory serves /api/v1/history, or says there that there is none if h is nil.
func registerHistory(mux *http.ServeMux, h *curves.History) {
	for path, answer := range map[string]func(context.Context, *curves.History, url.Values) (historyAnswer, error){
		"": showHistory, "/top": topOfHistory, "/verify": verifyHistory,
	} {
		mux.HandleFunc("GET /api/v1/history"+path, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), maxHistoryTime)
			defer cancel()
			// A server that bounds how long answers may take is meant for small ones. One that cannot be told keeps its bound.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxHistoryTime))
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			values, err := queryOf(r)
			if err == nil && h == nil {
				err = refuse(http.StatusNotFound,
					"This weir keeps no history: HISTORY=false is set, or its store did not open, which is logged.")
			}
			var a historyAnswer
			if err == nil {
				a, err = answer(ctx, h, values)
			}
			if err != nil {
				failHistory(w, err)
				return
			}
			_ = a.WriteJSON(w) // the client is gone if this fails
		})
	}
}

// failHistory answers with an error, as JSON.
func failHistory(w http.ResponseWriter, err error) {
	status, text := http.StatusServiceUnavailable, "The history cannot be read: "+err.Error()
	var asked curves.Refusal
	var known *refusal
	switch {
	case errors.As(err, &asked):
		status, text = http.StatusBadRequest, asked.Error()
	case errors.As(err, &known):
		status, text = known.status, known.text
	}
	w.WriteHeader(status)
	_ = encode(w, map[string]string{"error": text})
}

func showHistory(ctx context.Context, h *curves.History, values url.Values) (historyAnswer, error) {
	if err := checkNames(values, "domain", "path", "outcome", "value", "from", "to", "points", "tz"); err != nil {
		return nil, err
	}
	points, err := number(values, "points", 0, curves.MaxPoints)
	if err != nil {
		return nil, err
	}
	return h.Show(ctx, curves.ShowQuestion{Rules: rulesIn(values), Period: periodIn(values),
		Outcome: values.Get("outcome"), Points: points, Zone: values.Get("tz")})
}

func topOfHistory(ctx context.Context, h *curves.History, values url.Values) (historyAnswer, error) {
	if err := checkNames(values, "domain", "path", "value", "from", "to", "by", "n"); err != nil {
		return nil, err
	}
	rows, err := number(values, "n", 20, curves.MaxRows)
	if err != nil {
		return nil, err
	}
	return h.Top(ctx, curves.TopQuestion{Rules: rulesIn(values), Period: periodIn(values), By: values.Get("by"), Rows: rows})
}

func verifyHistory(ctx context.Context, h *curves.History, values url.Values) (historyAnswer, error) {
	if err := checkNames(values, "domain", "path", "outcome", "value"); err != nil {
		return nil, err
	}
	return h.Verify(ctx, curves.VerifyQuestion{Rules: rulesIn(values), Outcome: values.Get("outcome")})
}

func rulesIn(values url.Values) curves.Rules {
	return curves.Rules{Domain: values.Get("domain"), Path: values.Get("path"), Value: values.Get("value")}
}

func periodIn(values url.Values) curves.Period {
	return curves.Period{From: values.Get("from"), To: values.Get("to")}
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

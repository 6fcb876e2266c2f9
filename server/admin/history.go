package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

const (
	// maxAsked is how many questions are worked on at a time, so that they never take the limiter's memory; others
	// wait.
	maxAsked = 2
	// maxHistoryTime bounds a question, and the reading of its answer.
	maxHistoryTime = 5 * time.Minute
)

// History answers /api/v1/history: what a store keeps of hits, to the integer. Its methods may be called by any
// number of goroutines; make it with [NewHistory].
type History struct {
	store history.Store
	now   func() time.Time
	turns chan struct{}
}

// NewHistory answers from a store; now is the clock that relative times are read by.
func NewHistory(store history.Store, now func() time.Time) *History {
	return &History{store: store, now: now, turns: make(chan struct{}, maxAsked)}
}

// register serves the history, or says on its paths that there is none if h is nil.
func (h *History) register(mux *http.ServeMux) {
	for path, answer := range map[string]func(*History, context.Context, io.Writer, url.Values) error{
		"": (*History).Show, "/top": (*History).Top, "/verify": (*History).Verify,
	} {
		mux.HandleFunc("GET /api/v1/history"+path, func(w http.ResponseWriter, r *http.Request) {
			h.serve(w, r, answer)
		})
	}
}

func (h *History) serve(w http.ResponseWriter, r *http.Request,
	answer func(*History, context.Context, io.Writer, url.Values) error) {
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
	if err == nil {
		err = answer(h, ctx, w, values)
	}
	if err == nil {
		return
	}
	// Nothing has been written, unless the client has gone in the middle.
	status, text := http.StatusServiceUnavailable, "The history cannot be read: "+err.Error()
	var known *refusal
	if errors.As(err, &known) {
		status, text = known.status, known.text
	}
	w.WriteHeader(status)
	_ = encode(w, map[string]string{"error": text})
}

// encode writes a value as a line of JSON.
func encode(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

package door

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Scrapes is how many answers to /metrics a port makes at a time: each takes much memory for a moment.
const Scrapes = 2

// ScrapeTime is how long a client may take to read such an answer, and ReadTime any other: so long do others wait for
// their turn behind a slow reader. Prometheus gives up after ten seconds.
const ScrapeTime, ReadTime = 5 * time.Second, 30 * time.Second

const (
	turnTime  = 10 * time.Second // how long a request waits for its turn
	pieceTime = 5 * time.Second  // for a client to read what is written at once
)

// Turns bound how many answers are made and not yet read, to the channel's size: they take memory. Other requests wait
// for turnTime, and then get 503 with Retry-After. Handlers may share them.
type Turns chan struct{}

// Take waits for a turn for so long at most, and reports whether it came; it must be given back then.
func (t Turns) Take(ctx context.Context, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// GiveBack ends a turn.
func (t Turns) GiveBack() { <-t }

// Bound has a handler answer in its turn, and gives each client so much time to read the answer.
func (t Turns) Bound(h http.Handler, read time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Take(r.Context(), turnTime) {
			w.Header().Set("Retry-After", strconv.Itoa(int(turnTime.Seconds())))
			http.Error(w, fmt.Sprintf("%d other answers are being made, or read by slow clients: ask again in %.0f seconds.",
				cap(t), turnTime.Seconds()), http.StatusServiceUnavailable)
			return
		}
		defer t.GiveBack()
		h.ServeHTTP(&deadlineWriter{ResponseWriter: w, read: read}, r)
	})
}

// deadlineWriter bounds the time that a client may take to read its answer.
type deadlineWriter struct {
	http.ResponseWriter
	read  time.Duration // for the whole answer
	until time.Time     // zero before the first piece: making it may take long
}

// Write gives the client time for one piece more. A server that cannot be told keeps its own bound.
func (h *deadlineWriter) Write(piece []byte) (int, error) {
	next := time.Now().Add(pieceTime)
	if h.until.IsZero() {
		h.until = time.Now().Add(h.read)
	}
	if next.After(h.until) {
		next = h.until
	}
	_ = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(next)
	return h.ResponseWriter.Write(piece)
}

func (h *deadlineWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }

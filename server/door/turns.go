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

// How long an answer may take to be made and read: so long do others wait for their turn behind a slow reader. Prometheus
// gives up after ten seconds.
const ScrapeTime, ReadTime, ProfileTime = 10 * time.Second, 30 * time.Second, time.Minute

const turnTime = 10 * time.Second // how long a request waits for its turn

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

// Bound has a handler answer in its turn, and has the answer made and read within a time.
func (t Turns) Bound(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !t.Take(r.Context(), turnTime) {
			w.Header().Set("Retry-After", strconv.Itoa(int(turnTime.Seconds())))
			http.Error(w, fmt.Sprintf("%d other answers are being made, or read by slow clients: ask again in %.0f seconds.",
				cap(t), turnTime.Seconds()), http.StatusServiceUnavailable)
			return
		}
		defer t.GiveBack()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // else the server's own bound holds
		h.ServeHTTP(w, r)
	})
}

package connlimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Scrapes is how many answers to /metrics a port makes at a time: each takes much memory for a moment.
const Scrapes = 2

// How long an answer may take to be made and read: so long do others wait behind a slow reader. Prometheus gives up after
// ten seconds.
const ScrapeTime, ReadTime, ProfileTime = 10 * time.Second, 30 * time.Second, time.Minute

const acquireTime = 10 * time.Second // how long a request waits for the semaphore

// Semaphore bounds how many answers are made and not yet read, to the channel's size: they take memory. Other requests
// wait for acquireTime, and then get 503 with Retry-After. Handlers may share it.
type Semaphore chan struct{}

// Acquire waits for the semaphore, for so long at most, and reports whether it has it; it must be released then.
func (s Semaphore) Acquire(ctx context.Context, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Release gives the semaphore to another.
func (s Semaphore) Release() { <-s }

// Bound has a handler answer with the semaphore, and has the answer made and read within a time.
func (s Semaphore) Bound(h http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Acquire(r.Context(), acquireTime) {
			w.Header().Set("Retry-After", strconv.Itoa(int(acquireTime.Seconds())))
			http.Error(w, fmt.Sprintf("%d other answers are being made, or read by slow clients: ask again in %.0f seconds.",
				cap(s), acquireTime.Seconds()), http.StatusServiceUnavailable)
			return
		}
		defer s.Release()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // else the server's own bound holds
		h.ServeHTTP(w, r)
	})
}

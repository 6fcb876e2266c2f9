package connlimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Scrapes is the most concurrent answers to /metrics of a port, as each takes much memory for a moment.
const Scrapes = 2

// How long an answer may take to be made and read, and so how long others wait behind a slow reader. Prometheus gives up
// after ten seconds.
const ScrapeTime, ReadTime, ProfileTime = 10 * time.Second, 30 * time.Second, time.Minute

const acquireTimeout = 10 * time.Second // how long a request waits for the semaphore

// Semaphore bounds the answers that are being made or read, which take memory, to the channel's size. Other requests wait
// for acquireTime, and then get 503 with Retry-After. Handlers may share it.
type Semaphore chan struct{}

// Acquire waits at most atMost, or until ctx ends, and reports whether it acquired the semaphore; then call Release.
func (s Semaphore) Acquire(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Release lets another request acquire the semaphore.
func (s Semaphore) Release() { <-s }

// Bound makes a handler hold the semaphore while it answers, and limits the time to make and read the answer.
func (s Semaphore) Bound(h http.Handler, writeTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Acquire(r.Context(), acquireTimeout) {
			w.Header().Set("Retry-After", strconv.Itoa(int(acquireTimeout.Seconds())))
			http.Error(w, fmt.Sprintf("%d other answers are being made, or read by slow clients: ask again in %.0f seconds.",
				cap(s), acquireTimeout.Seconds()), http.StatusServiceUnavailable)
			return
		}
		defer s.Release()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // else the server's own bound holds
		h.ServeHTTP(w, r)
	})
}

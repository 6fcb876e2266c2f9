package connlimit

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Scrapes is the most concurrent answers to /metrics of a port: each takes much memory for a moment.
const Scrapes = 2

// How long a handler may take to write its answer, which includes how long the client takes to read it. A slow client
// holds the semaphore as long. Prometheus gives up after ten seconds.
const ScrapeTimeout, ReadTimeout, ProfileTimeout = 10 * time.Second, 30 * time.Second, time.Minute

const acquireTimeout = 10 * time.Second // how long a request waits for the semaphore

// Semaphore limits concurrent answers, which take memory, to the channel's size. Other requests wait for acquireTimeout,
// and then get 503 with Retry-After. Handlers may share it.
type Semaphore chan struct{}

// Acquire waits until the timeout, or until ctx ends, and reports whether it acquired the semaphore. If so, call Release.
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

// Bound returns a handler that holds the semaphore while h answers, and that sets the write deadline of the answer.
func (s Semaphore) Bound(h http.Handler, writeTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Acquire(r.Context(), acquireTimeout) {
			w.Header().Set("Retry-After", strconv.Itoa(int(acquireTimeout.Seconds())))
			http.Error(w, fmt.Sprintf("%d other answers are being made, or read by slow clients: ask again in %.0f seconds.",
				cap(s), acquireTimeout.Seconds()), http.StatusServiceUnavailable)
			return
		}
		defer s.Release()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // if this fails, the server's own timeout holds
		h.ServeHTTP(w, r)
	})
}

package xds

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait for the next stream once one has broken. The first wait after a stream that delivered
// anything is Retry: a server that was only restarted is back soon. Each further one doubles, from Initial to Max.
type Backoff struct {
	Retry, Initial, Max time.Duration // 3 s, 10 s and 60 s if they are not above 0; Retry is at most Initial
	// Jitter is the random part of a wait, from 0 to 1, so that the clients of a server do not all come back at the same
	// moment. With 0.5 a wait of 10 s takes from 5 to 10.
	Jitter float64
}

// shortestWait bounds the load on a server that breaks each stream.
const shortestWait = 100 * time.Millisecond

// start returns the waits after a stream that delivered, or after the start.
func (b Backoff) start() *waits {
	b.Initial = cmp.Or(max(b.Initial, 0), 10*time.Second)
	b.Max = max(cmp.Or(max(b.Max, 0), 60*time.Second), b.Initial)
	b.Retry = min(cmp.Or(max(b.Retry, 0), 3*time.Second), b.Initial)
	if b.Jitter = min(b.Jitter, 1); !(b.Jitter > 0) { // nor a number at all
		b.Jitter = 0
	}
	return &waits{Backoff: b, upcoming: b.Retry}
}

// waits are those since a stream last delivered.
type waits struct {
	Backoff
	upcoming time.Duration // without its jitter
	retried  bool          // Retry is over
}

// next returns how long the next wait takes.
func (w *waits) next() time.Duration {
	now := w.upcoming
	if w.retried {
		w.upcoming += min(w.upcoming, w.Max-w.upcoming)
	} else {
		w.upcoming, w.retried = w.Initial, true
	}
	return max(shortestWait, now-time.Duration(rand.Float64()*w.Jitter*float64(now)))
}

package xds

import (
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait for the next stream once one has broken. The first wait after a stream that delivered
// anything is Retry: a server that was only restarted is back soon. The next is Initial, and each further one doubles, to Max.
type Backoff struct {
	Retry, Initial, Max time.Duration
	// Jitter is the random part of a wait, from 0 to 1, so that the clients of a server do not all come back at the same
	// moment. With 0.5 a wait of 10 s takes from 5 to 10.
	Jitter float64
}

// minWait bounds the load on a server that breaks each stream.
const minWait = 100 * time.Millisecond

// sound returns b with what makes a wait of it, whatever it holds.
func (b Backoff) bounded() Backoff {
	b.Max = max(b.Max, b.Initial, b.Retry)
	if b.Jitter = min(b.Jitter, 1); !(b.Jitter > 0) { // nor a number at all
		b.Jitter = 0
	}
	return b
}

// after returns the wait that follows another one.
func (b Backoff) next(wait time.Duration) time.Duration {
	return max(b.Initial, wait+min(wait, b.Max-wait))
}

// spread takes the random part off a wait.
func (b Backoff) jittered(wait time.Duration) time.Duration {
	return max(minWait, wait-time.Duration(rand.Float64()*b.Jitter*float64(wait)))
}

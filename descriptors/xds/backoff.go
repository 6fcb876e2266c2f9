package xds

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait for the next stream once one has broken. The first wait after a stream that delivered
// anything is Retry: a server that was only restarted is back soon. The next is Initial, and each further one doubles, to Max.
type Backoff struct {
	Retry, Initial, Max time.Duration // 3 s, 10 s and 60 s if they are 0; Retry is at most Initial, and Max at least
	// Jitter is the random part of a wait, from 0 to 1, so that the clients of a server do not all come back at the same
	// moment. With 0.5 a wait of 10 s takes from 5 to 10.
	Jitter float64
}

// shortestWait bounds the load on a server that breaks each stream.
const shortestWait = 100 * time.Millisecond

// withDefaults returns b with all that it leaves out.
func (b Backoff) withDefaults() Backoff {
	b.Initial = cmp.Or(b.Initial, 10*time.Second)
	b.Max = max(cmp.Or(b.Max, 60*time.Second), b.Initial)
	b.Retry = min(cmp.Or(b.Retry, 3*time.Second), b.Initial)
	if b.Jitter = min(b.Jitter, 1); !(b.Jitter > 0) { // nor a number at all
		b.Jitter = 0
	}
	return b
}

// after returns the wait that follows another one.
func (b Backoff) after(wait time.Duration) time.Duration {
	return max(b.Initial, wait+min(wait, b.Max-wait))
}

// spread takes the random part off a wait.
func (b Backoff) spread(wait time.Duration) time.Duration {
	return max(shortestWait, wait-time.Duration(rand.Float64()*b.Jitter*float64(wait)))
}

package pipeline

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// promptReply is how fast a reply is that never counts as slow.
	promptReply = 5 * time.Millisecond
	// minSlowReplies is how many replies in a row have to be slow before the server counts as slow.
	minSlowReplies = 8
	// slowFor is for how long a server counts as slow after its last slow reply.
	slowFor = time.Second
)

// latency finds servers that are too slow for hasty callers while patient ones keep the breaker closed. While replies
// are prompt it costs a comparison for each. The zero value is ready.
type latency struct {
	some atomic.Bool // there are slow replies

	mu   sync.Mutex
	slow []time.Duration // the last replies, all of them slow
	at   time.Time       // when the last one came
}

// note notes how long a server took to reply.
func (l *latency) note(took time.Duration, now time.Time) {
	prompt := took < promptReply
	if prompt && !l.some.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.some.Store(!prompt)
	if prompt {
		l.slow = l.slow[:0]
		return
	}
	if len(l.slow) == minSlowReplies {
		l.slow = slices.Delete(l.slow, 0, 1)
	}
	l.slow, l.at = append(l.slow, took), now
}

// fastest returns how long the fastest of the last replies took, 0 if it was prompt or is not known.
func (l *latency) fastest(now time.Time) time.Duration {
	if !l.some.Load() {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.slow) < minSlowReplies || now.Sub(l.at) > slowFor {
		return 0
	}
	return slices.Min(l.slow)
}

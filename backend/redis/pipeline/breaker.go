package pipeline

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// breakerState is what is known of a server.
type breakerState uint8

const (
	stateClosed   breakerState = iota // it answers: all requests are sent
	stateOpen                         // it does not answer: none is sent
	stateHalfOpen                     // it has answered a PING: one batch at a time is sent, until one is answered
)

const (
	// tripAfter is how many exchanges in a row are lost until the breaker opens. Those that overlap count as one: a
	// pause of the machine loses them all at once.
	tripAfter = 3
	// budgetSpan is how long the budgets of callers are remembered at least.
	budgetSpan = time.Second
	// minPongTimeout is how late PONG may always come, however little time callers have.
	minPongTimeout = 5 * time.Millisecond
)

// breaker finds out from exchanges and PINGs whether a server is to be asked. Each method is told the time.
type breaker struct {
	state breakerState
	since time.Time // when it came to be so; what was sent before tells nothing

	lostInRow  int       // exchanges without an answer
	lastLost   time.Time // when the last one of them ended
	lastAnswer time.Time // to an exchange that mattered
	slow       bool      // the last answer took its time

	budgets [2]time.Duration // the longest budget of an exchange's callers, in this span and in the one before
	span    time.Time        // when this one began
}

// calm reports whether an answer would tell nothing new.
func (b *breaker) calm() bool { return b.state == stateClosed && b.lostInRow == 0 }

// sends notes that a batch is sent, and the budget of its callers.
func (b *breaker) sends(budget time.Duration, now time.Time) {
	switch age := now.Sub(b.span); {
	case age >= 2*budgetSpan:
		b.budgets, b.span = [2]time.Duration{}, now
	case age >= budgetSpan:
		b.budgets, b.span = [2]time.Duration{0, b.budgets[0]}, now
	}
	b.budgets[0] = max(b.budgets[0], budget)
}

// longestBudget returns the longest budget of late.
func (b *breaker) longestBudget() time.Duration { return max(b.budgets[0], b.budgets[1]) }

// pongTimeout is how late PONG may come.
func (b *breaker) pongTimeout() time.Duration { return max(b.longestBudget(), minPongTimeout) }

// exchanged notes the outcome of an exchange, when it was sent, and the budget of its callers.
func (b *breaker) exchanged(o outcome, sent time.Time, budget time.Duration, now time.Time) {
	if o == outcomeUnknown || b.state == stateOpen || sent.Before(b.since) {
		return
	}
	hasty := budget < b.longestBudget()/2 && (b.slow || budget < 2*promptReply)
	switch {
	case o == outcomeAnswered:
		b.lostInRow, b.lastAnswer = 0, now
		if b.state == stateHalfOpen {
			b.become(stateClosed, now)
		}
	case o == outcomeUnreachable || b.state == stateHalfOpen:
		b.become(stateOpen, now)
	case o == outcomeLost && hasty: // callers with more time may well get their answers
	case !sent.Before(b.lastLost):
		b.lastLost = now
		if b.lostInRow++; b.lostInRow >= tripAfter {
			b.become(stateOpen, now)
		}
	}
}

// pinged notes the error of a PING, or how long it took.
func (b *breaker) pinged(err error, took time.Duration, sent, now time.Time) {
	inTime := err == nil && took <= b.pongTimeout()
	switch {
	case b.state == stateOpen && inTime:
		b.become(stateHalfOpen, now)
	case b.state == stateClosed && inTime:
		b.lostInRow = 0
	case b.state == stateClosed && err != nil && b.lastAnswer.Before(sent):
		b.become(stateOpen, now)
	}
}

func (b *breaker) become(s breakerState, now time.Time) {
	b.state, b.since, b.lostInRow = s, now, 0
}

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

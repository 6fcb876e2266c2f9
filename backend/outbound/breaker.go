package outbound

import "time"

// Outcome is the result of an exchange or a PING.
type Outcome uint8

// The outcomes, from the worst to the best for callers.
const (
	Unknown     Outcome = iota // it showed nothing
	Unreachable                // no connection could be made
	Lost                       // no answer came
	Loading                    // it answered that it cannot serve any command yet
	Refused                    // it refuses this client, whatever the command
	Answered
)

// String returns the outcome's name, in a word.
func (o Outcome) String() string {
	return [...]string{"unknown", "unreachable", "lost", "loading", "refused", "answered"}[o]
}

// State is the state of a circuit breaker.
type State uint8

const (
	// Closed means that the server answers: all requests are sent.
	Closed State = iota
	// Open means that it does not: none is sent.
	Open
	// HalfOpen means that it has answered a PING: one batch at a time is sent, until one is answered.
	HalfOpen
)

// tripAfter is how many lost exchanges in a row open the breaker. Overlapping ones count as one.
const tripAfter = 3

// breaker is a circuit breaker for a server, fed with the outcomes of exchanges and PINGs. It reads no clock.
type breaker struct {
	state State
	since time.Time // when the state began; onExchange ignores exchanges sent earlier

	lostInRow  int       // exchanges without an answer
	lastLost   time.Time // when the last one of them ended
	lastAnswer time.Time // of the last answered exchange that was not ignored
}

// healthy reports whether the breaker is closed and the last exchange was answered. If so, another answer would change
// nothing.
func (b *breaker) healthy() bool { return b.state == Closed && b.lostInRow == 0 }

// onExchange records the outcome of an exchange that was sent at sent.
func (b *breaker) onExchange(o Outcome, sent, now time.Time) {
	if o == Unknown || b.state == Open || sent.Before(b.since) {
		return
	}
	if o == Answered {
		b.lostInRow, b.lastAnswer = 0, now
		if b.state == HalfOpen {
			b.setState(Closed, now)
		}
		return
	}
	switch {
	case o == Unreachable && !b.lastAnswer.After(sent) || b.state == HalfOpen:
		b.setState(Open, now)
	case !sent.Before(b.lastLost):
		b.lastLost = now
		if b.lostInRow++; b.lostInRow >= tripAfter {
			b.setState(Open, now)
		}
	}
}

// onPing records the outcome of a PING that was sent at sent. Unless an exchange was answered since then, a failed PING
// opens the breaker; a lost one does so only after another loss.
func (b *breaker) onPing(o Outcome, sent, now time.Time) {
	switch {
	case b.state == Open && o == Answered:
		b.setState(HalfOpen, now)
	case b.state != Closed || o == Answered || !b.lastAnswer.Before(sent):
	case b.lostInRow > 0 || o != Lost:
		b.setState(Open, now)
	default:
		b.lostInRow, b.lastLost = 1, now
	}
}

func (b *breaker) setState(s State, now time.Time) {
	b.state, b.since, b.lostInRow = s, now, 0
}

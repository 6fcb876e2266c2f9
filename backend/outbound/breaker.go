package outbound

import "time"

// Outcome is what an exchange or a PING showed of a server.
type Outcome uint8

// What is better for callers is greater.
const (
	Unknown     Outcome = iota // nothing
	Unreachable                // there was no connection to be had
	Lost                       // no answer came
	Loading                    // it said that it cannot count yet, whatever it is asked
	Refused                    // it refuses who asks, whatever is asked
	Answered
)

// String returns the outcome's name, in a word.
func (o Outcome) String() string {
	return [...]string{"unknown", "unreachable", "lost", "loading", "refused", "answered"}[o]
}

// State is what a breaker knows of a server.
type State uint8

const (
	// Closed means that the server answers: all requests are sent.
	Closed State = iota
	// Open means that it does not: none is sent.
	Open
	// HalfOpen means that it has answered a PING: one batch at a time is sent, until one is answered.
	HalfOpen
)

// tripAfter is how many exchanges in a row are lost until the breaker opens. Overlapping ones, as in a pause, are one.
const tripAfter = 3

// breaker decides by exchanges and PINGs whether checks are sent to a server. Time is an argument.
type breaker struct {
	state State
	since time.Time // when the state began; exchanges sent earlier are ignored

	lostInRow  int       // exchanges without an answer
	lastLost   time.Time // when the last one of them ended
	lastAnswer time.Time // to an exchange that mattered
}

// healthy reports whether an answer would tell nothing new.
func (b *breaker) healthy() bool { return b.state == Closed && b.lostInRow == 0 }

// onExchange notes the outcome of an exchange, and when it was sent.
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

// onPing notes the outcome of a PING, and when it was sent. A lost one opens the breaker after another loss, others do
// at once, unless an exchange was answered meanwhile.
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

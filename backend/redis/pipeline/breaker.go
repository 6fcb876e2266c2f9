package pipeline

import (
	"context"
	"errors"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// outcome is what an exchange showed of a server.
type outcome uint8

const (
	outcomeUnknown     outcome = iota // nothing
	outcomeUnreachable                // there was no connection to be had
	outcomeLost                       // no answer came
	outcomeLoading                    // it said that it cannot count now, whatever it is asked
	outcomeAnswered
)

// outcomeOf returns what an exchange shows of a server that ended with an error, before or after it was written.
func outcomeOf(err error, written bool) outcome {
	if err == nil { // first, as what follows allocates
		return outcomeAnswered
	}
	var reply goredis.Error
	var network net.Error
	switch {
	case topology.NoPrimary(err):
		return outcomeUnreachable
	case errors.As(err, &reply) && classifyText(reply.Error()).loading():
		return outcomeLoading
	case errors.As(err, &reply):
		return outcomeAnswered
	case errors.Is(err, errLate), // a new connection came too late for its callers: the answers may, too
		errors.Is(err, goredis.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, goredis.ErrPoolTimeout):
		return outcomeUnknown // it is ours
	case written, errors.As(err, &network) && network.Timeout():
		return outcomeLost
	}
	return outcomeUnreachable
}

// breakerState is what is known of a server.
type breakerState uint8

const (
	stateClosed   breakerState = iota // it answers: all requests are sent
	stateOpen                         // it does not answer: none is sent
	stateHalfOpen                     // it has answered a PING: one batch at a time is sent, until one is answered
)

// tripAfter is how many exchanges in a row are lost until the breaker opens. Overlapping ones, as in a pause, are one.
const tripAfter = 3

// breaker decides by exchanges and PINGs whether checks are sent to a server. Time is an argument.
type breaker struct {
	state breakerState
	since time.Time // when the state began; exchanges sent earlier are ignored

	lostInRow  int       // exchanges without an answer
	lastLost   time.Time // when the last one of them ended
	lastAnswer time.Time // to an exchange that mattered
}

// calm reports whether an answer would tell nothing new.
func (b *breaker) calm() bool { return b.state == stateClosed && b.lostInRow == 0 }

// exchanged notes the outcome of an exchange, and when it was sent.
func (b *breaker) exchanged(o outcome, sent, now time.Time) {
	if o == outcomeUnknown || b.state == stateOpen || sent.Before(b.since) {
		return
	}
	if o == outcomeAnswered {
		b.lostInRow, b.lastAnswer = 0, now
		if b.state == stateHalfOpen {
			b.become(stateClosed, now)
		}
		return
	}
	switch {
	case o == outcomeUnreachable || b.state == stateHalfOpen:
		b.become(stateOpen, now)
	case !sent.Before(b.lastLost):
		b.lastLost = now
		if b.lostInRow++; b.lostInRow >= tripAfter {
			b.become(stateOpen, now)
		}
	}
}

// pinged notes the error of a PING, nil for PONG in time, and when it was sent.
func (b *breaker) pinged(err error, sent, now time.Time) {
	switch {
	case b.state == stateOpen && err == nil:
		b.become(stateHalfOpen, now)
	case b.state == stateClosed && err != nil && b.lastAnswer.Before(sent):
		b.become(stateOpen, now)
	}
}

func (b *breaker) become(s breakerState, now time.Time) {
	b.state, b.since, b.lostInRow = s, now, 0
}

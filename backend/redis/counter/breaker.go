package counter

import "time"

// outcome is what an exchange showed of a server.
type outcome uint8

const (
	untold      outcome = iota // nothing
	unreachable                // there was no connection to be had
	lost                       // no answer came
	unready                    // it said that it cannot count now, whatever it is asked
	answered
)

// condition is what is known of a server.
type condition uint8

const (
	serving   condition = iota // it answers: the breaker is closed, and whoever comes is sent
	absent                     // it does not: the breaker is open, and nobody is
	returning                  // it has answered a PING: one batch at a time is sent, until one is answered
)

const (
	// lostMost is how many exchanges in a row get nothing out of a server until it counts as away. Those that overlap
	// are one: a machine that stands still for a moment loses them all at once.
	lostMost = 3
	// patienceSpan is for how long at least it is remembered how long callers waited.
	patienceSpan = time.Second
	// leastPatience is how late PONG may always come, whatever the callers had.
	leastPatience = 5 * time.Millisecond
)

// breaker finds out from exchanges and PINGs whether a server is to be asked. Each method is told the time.
type breaker struct {
	condition
	since time.Time // when it came to be so; what left before tells nothing

	inRow    int       // exchanges without an answer
	ended    time.Time // when the last one of them did
	answered time.Time // when an exchange was answered that mattered
	slow     bool      // the last answer took its time

	patience [2]time.Duration // the longest that callers had for an exchange, in this span and in the one before
	span     time.Time        // when this one began
}

// calm reports whether an answer would tell nothing new.
func (b *breaker) calm() bool { return b.condition == serving && b.inRow == 0 }

// leaves notes that a batch leaves, and how long its callers have.
func (b *breaker) leaves(patience time.Duration, now time.Time) {
	switch age := now.Sub(b.span); {
	case age >= 2*patienceSpan:
		b.patience, b.span = [2]time.Duration{}, now
	case age >= patienceSpan:
		b.patience, b.span = [2]time.Duration{0, b.patience[0]}, now
	}
	b.patience[0] = max(b.patience[0], patience)
}

// longest is how long callers had lately at most.
func (b *breaker) longest() time.Duration { return max(b.patience[0], b.patience[1]) }

// limit is how late PONG may come.
func (b *breaker) limit() time.Duration { return max(b.longest(), leastPatience) }

// hears notes how an exchange ended that began at left, and whose callers had so much patience.
func (b *breaker) hears(o outcome, left time.Time, patience time.Duration, now time.Time) {
	if o == untold || b.condition == absent || left.Before(b.since) {
		return
	}
	switch {
	case o == answered:
		b.inRow, b.answered = 0, now
		if b.condition == returning {
			b.become(serving, now)
		}
	case o == unreachable || b.condition == returning:
		b.become(absent, now)
	case o == lost && patience < b.longest()/2 && (b.slow || patience < 2*promptly): // others may well get their answers
	case !left.Before(b.ended):
		b.ended = now
		if b.inRow++; b.inRow >= lostMost {
			b.become(absent, now)
		}
	}
}

// pinged notes how a PING ended that was sent at sent: with its error, or so late.
func (b *breaker) pinged(err error, took time.Duration, sent, now time.Time) {
	inTime := err == nil && took <= b.limit()
	switch {
	case b.condition == absent && inTime:
		b.become(returning, now)
	case b.condition == serving && inTime:
		b.inRow = 0
	case b.condition == serving && err != nil && b.answered.Before(sent):
		b.become(absent, now)
	}
}

func (b *breaker) become(c condition, now time.Time) {
	b.condition, b.since, b.inRow = c, now, 0
}

package xds

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Pauses say how long a server is left alone after a stream has broken. The first pause after a stream that delivered
// anything is Again: a server that was only restarted is back soon. Each further one is twice as long as that before
// it, from First to Longest.
type Pauses struct {
	Again, First, Longest time.Duration // 3 s, 10 s and 60 s if they are not above 0; Again is at most First
	// Spread is the part of a pause that is left to chance, from 0 to 1, so that not all clients of a server come back at
	// the same moment. With 0.5 a pause of 10 s takes from 5 to 10.
	Spread float64
}

// shortest is what no pause goes below.
const shortest = 100 * time.Millisecond

// begin returns the pauses after a stream that delivered, or at the start.
func (p Pauses) begin() *pauses {
	p.First = cmp.Or(max(p.First, 0), 10*time.Second)
	p.Longest = max(cmp.Or(max(p.Longest, 0), 60*time.Second), p.First)
	p.Again = min(cmp.Or(max(p.Again, 0), 3*time.Second), p.First)
	if p.Spread = min(p.Spread, 1); !(p.Spread > 0) { // nor a number at all
		p.Spread = 0
	}
	return &pauses{Pauses: p, upcoming: p.Again}
}

// pauses are those since a stream last delivered.
type pauses struct {
	Pauses
	upcoming time.Duration // without its spread
	begun    bool          // Again is over
}

// next returns how long the next pause takes.
func (p *pauses) next() time.Duration {
	now := p.upcoming
	if p.begun {
		p.upcoming += min(p.upcoming, p.Longest-p.upcoming)
	} else {
		p.upcoming, p.begun = p.First, true
	}
	return max(shortest, now-time.Duration(rand.Float64()*p.Spread*float64(now)))
}

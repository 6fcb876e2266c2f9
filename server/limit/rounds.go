package limit

import (
	"cmp"
	"context"
	"slices"

	"github.com/weirproxy/weir/backend"
)

// round is what the store is asked at once of a call's checks.
type round struct {
	checks    []backend.Check
	decisions []backend.Decision
	at        []int // where they stand in the call
}

// needsLook says whether the answer to one check may keep another from being counted.
func (c *Call) needsLook() bool {
	counts, looks := 0, 0
	for i := range c.checks {
		switch c.checks[i].Op {
		case backend.Count:
			counts++
		case backend.Look:
			looks++
		}
	}
	return counts > 0 && counts+looks > 1
}

// askInRounds has the checks decided so that a refused request counts only where it is over: it looks first. If that
// would refuse the request, the checks that fit are spared: they keep the answer of the look, and all others are asked.
// Hits come and go between two rounds, and the later answer holds: a request that it does not refuse counts everywhere.
//
// A check that the look has no answer for leaves the whole request without one, and nothing of it is counted.
func (l *Limiter) askInRounds(ctx context.Context, c *Call) {
	if err := l.look(ctx, c); err != nil {
		for i := range c.decisions {
			c.decisions[i] = backend.Decision{Err: err}
		}
		return
	}
	if !l.wouldRefuse(c) {
		l.ask(ctx, c.checks, c.decisions)
		return
	}
	for i := range c.checks {
		c.pending[i].spared = c.checks[i].Op == backend.Count && c.decisions[i].Allowed
	}
	if err := l.askAgain(ctx, c, false); err == nil && !l.wouldRefuse(c) {
		_ = l.askAgain(ctx, c, true) // the decisions hold its error
	}
}

// look finds out what each check would be told now. Refunds, which it leaves out, are always allowed.
func (l *Limiter) look(ctx context.Context, c *Call) error {
	c.round.reset()
	for i := range c.checks {
		c.decisions[i] = backend.Decision{Allowed: true}
		if c.checks[i].Op != backend.Refund {
			c.round.add(c, i)
			c.round.checks[len(c.round.checks)-1].Op = backend.Look
		}
	}
	err := l.askRound(ctx, c)
	for i := range c.checks {
		if d := &c.decisions[i]; c.checks[i].Op == backend.Count {
			d.Allowed = d.Allowed && c.checks[i].Hits <= d.Remaining // Remaining is that of the limit with the least left
		}
	}
	return err
}

// askAgain asks the checks that are spared, or those that are not.
func (l *Limiter) askAgain(ctx context.Context, c *Call, spared bool) error {
	c.round.reset()
	for i := range c.checks {
		if c.pending[i].spared == spared {
			c.round.add(c, i)
		}
	}
	return l.askRound(ctx, c)
}

// askRound has the store decide the round, and puts the decisions where they belong in the call. Its error is the first
// of theirs.
func (l *Limiter) askRound(ctx context.Context, c *Call) (undecided error) {
	r := &c.round
	r.decisions = slices.Grow(r.decisions[:0], len(r.checks))[:len(r.checks)]
	l.ask(ctx, r.checks, r.decisions)
	for i, at := range r.at {
		c.decisions[at] = r.decisions[i]
		undecided = cmp.Or(undecided, r.decisions[i].Err)
	}
	return undecided
}

// wouldRefuse says whether the decisions that are there refuse the request.
func (l *Limiter) wouldRefuse(c *Call) bool {
	for i := range c.checks {
		p := &c.pending[i]
		c.Statuses[p.descriptor].Over = !c.decisions[i].Allowed && !p.shadow
	}
	refused, _ := l.refused(c.Statuses)
	return refused
}

func (r *round) add(c *Call, i int) {
	r.checks = append(r.checks, c.checks[i])
	r.at = append(r.at, i)
}

// reset empties the round. It keeps no reference to what the request and the rules held.
func (r *round) reset() {
	clear(r.checks)
	clear(r.decisions)
	r.checks, r.decisions, r.at = r.checks[:0], r.decisions[:0], r.at[:0]
}

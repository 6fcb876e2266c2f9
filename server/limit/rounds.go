package limit

import (
	"cmp"
	"context"

	"github.com/weirproxy/weir/backend"
)

// mayLookFirst reports whether the answer to one check may keep another from being counted.
func (c *Call) mayLookFirst() bool {
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
// would refuse the request, the checks that fit stay uncharged, with the answer of the look, and all others are asked.
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
		c.pending[i].uncharged = c.checks[i].Op == backend.Count && c.decisions[i].Allowed
	}
	if err := l.askAgain(ctx, c, false); err == nil && !l.wouldRefuse(c) {
		_ = l.askAgain(ctx, c, true) // the decisions hold its error
		for i := range c.pending {
			c.pending[i].uncharged = false
		}
	}
}

// look finds out what each check would be told now. Refunds, which it leaves out, are always allowed.
func (l *Limiter) look(ctx context.Context, c *Call) error {
	c.round.Reset()
	for i := range c.checks {
		c.decisions[i] = backend.Decision{Allowed: true}
		if c.checks[i].Op != backend.Refund {
			c.round.Add(c.checks, i)
			c.round.Checks[len(c.round.Checks)-1].Op = backend.Look
		}
	}
	err := l.askRound(ctx, c)
	for i := range c.checks {
		if d := &c.decisions[i]; c.checks[i].Op == backend.Count {
			d.Allowed = d.Allowed && c.checks[i].Hits <= d.Remaining // Remaining is that of the limit with the least room
		}
	}
	return err
}

// askAgain asks the checks that stay uncharged, or those that do not.
func (l *Limiter) askAgain(ctx context.Context, c *Call, uncharged bool) error {
	c.round.Reset()
	for i := range c.checks {
		if c.pending[i].uncharged == uncharged {
			c.round.Add(c.checks, i)
		}
	}
	return l.askRound(ctx, c)
}

// askRound has the store decide the round, and hands the decisions to the call. Its error is the first of theirs.
func (l *Limiter) askRound(ctx context.Context, c *Call) (undecided error) {
	l.ask(ctx, c.round.Checks, c.round.Out)
	for i := range c.round.Out {
		undecided = cmp.Or(undecided, c.round.Out[i].Err)
	}
	c.round.HandOver(c.decisions)
	return undecided
}

// wouldRefuse reports whether the decisions that are there refuse the request.
func (l *Limiter) wouldRefuse(c *Call) bool {
	for i := range c.checks {
		p := &c.pending[i]
		c.Statuses[p.descriptor].Over = !c.decisions[i].Allowed && !p.shadow
	}
	refused, _ := l.refused(c.Statuses)
	return refused
}

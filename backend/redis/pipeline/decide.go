package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Decide asks the servers that own the checks' keys, each at most once unless its reply proves that a check did not
// run. It returns 2 ms, or a tenth of its time, before ctx's deadline, and at the latest after the servers' timeout.
// The Err of a check without an answer wraps ErrUnavailable.
func (p *Pipeline) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Validate(checks, out); err != nil {
		return err
	}
	if p.closed.Load() {
		return backend.ErrClosed
	}
	deadline := backend.Deadline(ctx, time.Now(), p.servers.Config.Timeout)
	return p.finish(ctx, p.begin(ctx, checks, deadline), checks, out)
}

// begin lets checks join the queues of their keys' servers. It returns nil if the caller has left.
func (p *Pipeline) begin(ctx context.Context, checks []backend.Check, deadline time.Time) *call {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(deadline) {
		return nil
	}
	c := p.calls.Get().(*call)
	c.set(checks, p.codec, deadline)
	for i := range c.requests {
		r := &c.requests[i]
		q, err := p.ownerQueue(r.Key)
		if err != nil {
			p.report(false)
			r.answer(err)
			continue
		}
		if i == 0 && q.suspect.Load() { // many leave at once: few shall be late
			c.deadline = c.deadline.Add(-backend.MinMargin)
		}
		c.join(r, q)
	}
	for i := range c.groups {
		p.enqueue(&c.groups[i], now)
	}
	p.deadlines.add(c, now)
	return c
}

// finish waits for the answers of a call, while its caller can wait.
func (p *Pipeline) finish(ctx context.Context, c *call, checks []backend.Check, out []backend.Decision) error {
	if c == nil {
		for i := range checks {
			p.fail(&out[i], cmp.Or(context.Cause(ctx), errLate))
		}
		return nil
	}
	var cause error
	select {
	case <-c.done:
		if p.deadlines.remove(c) {
			err := p.decode(c, checks, out, nil)
			clear(c.requests)
			if cap(c.text) <= maxKept {
				p.calls.Put(c)
			}
			return err
		}
		cause = errLate
	case <-ctx.Done():
		p.deadlines.remove(c)
		cause = context.Cause(ctx)
	}
	c.abandoned.Store(true) // to the queues that still work on it
	return p.decode(c, checks, out, cause)
}

// decode reads the answers of a call; cause is why the others are not there. Its error is ErrClosed or nil.
func (p *Pipeline) decode(c *call, checks []backend.Check, out []backend.Decision, cause error) (closed error) {
	for i := range checks {
		r := &c.requests[i]
		err := cause
		if r.ready.Load() {
			err = r.err
			if err == nil {
				out[i], err = p.codec.Decode(r, &checks[i])
			}
		}
		if err != nil {
			p.fail(&out[i], err)
			if errors.Is(err, backend.ErrClosed) {
				closed = backend.ErrClosed
			}
		}
	}
	return closed
}

// fail makes a decision that of a check without an answer.
func (p *Pipeline) fail(d *backend.Decision, cause error) {
	p.totals.unavailable.Add(1)
	away, ok := cause.(*backend.Away)
	if !ok {
		away = &backend.Away{Reason: reasonOf(cause), Err: fmt.Errorf("%w: %w", ErrUnavailable, cause)}
	}
	*d = backend.Decision{Err: away}
}

func reasonOf(cause error) backend.Reason {
	var reply goredis.Error
	switch {
	case errors.Is(cause, errBusy):
		return backend.Busy
	case topology.NoPrimary(cause), errors.Is(cause, topology.ErrNoOwner):
		return backend.Down
	case errors.As(cause, &reply):
		return backend.Refused
	}
	return backend.Late
}

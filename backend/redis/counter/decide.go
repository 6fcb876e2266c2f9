package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
)

// Decide asks the servers that own the checks' keys, each at most once unless its answer proves that a check did not
// run. It returns at the latest 2 ms, or a tenth of the time that it had, before ctx's deadline, and never later than the
// store's timeout. The Err of a check that a server gave no answer to wraps ErrUnavailable.
func (s *Store) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Valid(checks, out); err != nil {
		return err
	}
	if s.closed.Load() {
		return backend.ErrClosed
	}
	leave := s.leave(ctx)
	if len(checks) <= maxBatch {
		return s.decide(ctx, checks, out, leave)
	}
	return s.decideLarge(ctx, checks, out, leave)
}

// leave returns when a caller who comes now leaves at the latest.
func (s *Store) leave(ctx context.Context) time.Time {
	now := time.Now()
	leave := now.Add(s.servers.Timeout())
	if deadline, ok := ctx.Deadline(); ok {
		if own := deadline.Add(-max(minMargin, deadline.Sub(now)/10)); own.Before(leave) {
			return own
		}
	}
	return leave
}

// decide is Decide for as many checks as a batch holds.
func (s *Store) decide(ctx context.Context, checks []backend.Check, out []backend.Decision, leave time.Time) error {
	return s.finish(ctx, s.begin(ctx, checks, leave), checks, out)
}

// begin lets checks join their lanes, unless their caller has left: then there is no call.
func (s *Store) begin(ctx context.Context, checks []backend.Check, leave time.Time) *call {
	now := time.Now()
	if ctx.Err() != nil || !now.Before(leave) {
		return nil
	}
	c := s.calls.Get().(*call)
	c.set(checks, s.method, leave)
	s.handOver(c, now)
	s.departures.add(c, now)
	return c
}

// finish waits for the answers of a call, while its caller can wait.
func (s *Store) finish(ctx context.Context, c *call, checks []backend.Check, out []backend.Decision) error {
	if c == nil {
		for i := range checks {
			s.fail(&out[i], cmp.Or(context.Cause(ctx), errLate))
		}
		return nil
	}
	select {
	case <-c.done:
		if !s.departures.remove(c) {
			return s.abandon(c, checks, out, errLate)
		}
		err := s.decode(c, checks, out, nil)
		s.recycle(c)
		return err
	case <-ctx.Done():
		s.departures.remove(c)
		return s.abandon(c, checks, out, context.Cause(ctx))
	}
}

// decideLarge is Decide for more checks than a batch holds. They go in several calls at the same time, as many checks to
// each as a batch holds; but a key that has been in one is not in another before that is answered, so that it is charged
// in order.
func (s *Store) decideLarge(ctx context.Context, checks []backend.Check, out []backend.Decision, leave time.Time) error {
	var failed error
	for len(checks) > 0 {
		sizes := sizesAtOnce(checks)
		calls, from := make([]*call, len(sizes)), 0
		for i, n := range sizes {
			calls[i] = s.begin(ctx, checks[from:from+n], leave)
			from += n
		}
		from = 0
		for i, n := range sizes {
			failed = cmp.Or(failed, s.finish(ctx, calls[i], checks[from:from+n], out[from:from+n]))
			from += n
		}
		checks, out = checks[from:], out[from:]
	}
	return failed
}

// sizesAtOnce returns how many checks, from the first one on, may go in each of several calls at the same time.
func sizesAtOnce(checks []backend.Check) (sizes []int) {
	in := make(map[string]int, len(checks)) // the call that a key is in
	for i := range checks {
		if last := len(sizes) - 1; last < 0 || sizes[last] == maxBatch {
			sizes = append(sizes, 0)
		}
		last := len(sizes) - 1
		if at, known := in[string(checks[i].Key)]; known && at != last {
			if sizes[last] == 0 {
				sizes = sizes[:last]
			}
			return sizes
		}
		in[string(checks[i].Key)] = last
		sizes[last]++
	}
	return sizes
}

// recycle keeps a call that no lane has any more for another one, unless it has grown large.
func (s *Store) recycle(c *call) {
	clear(c.asks)
	if cap(c.text) <= maxKept {
		s.calls.Put(c)
	}
}

// abandon leaves a call to the lanes that still work on it, with the answers that are there.
func (s *Store) abandon(c *call, checks []backend.Check, out []backend.Decision, why error) error {
	c.gone.Store(true)
	return s.decode(c, checks, out, why)
}

// decode reads the answers of a call; why is for those that are not there. Its error is ErrClosed or nil.
func (s *Store) decode(c *call, checks []backend.Check, out []backend.Decision, why error) error {
	closed := false
	for i := range checks {
		a := &c.asks[i]
		err := why
		if a.answered.Load() {
			err = a.err
			if err == nil {
				out[i], err = s.method.decide(a, &checks[i])
			}
		}
		if err != nil {
			s.fail(&out[i], err)
			closed = closed || errors.Is(err, backend.ErrClosed)
		}
	}
	if closed {
		return backend.ErrClosed
	}
	return nil
}

// fail makes a decision that of a check without an answer.
func (s *Store) fail(d *backend.Decision, why error) {
	s.unavailable.Add(1)
	*d = backend.Decision{Err: awayFor(why)}
}

// awayFor returns why a check has no answer as the Err of its decision. It wraps ErrUnavailable.
func awayFor(why error) *backend.Away {
	if away, is := why.(*backend.Away); is {
		return away
	}
	reason := backend.Late
	var reply goredis.Error
	switch {
	case errors.Is(why, errBusy):
		reason = backend.Busy
	case redis.NoPrimary(why):
		reason = backend.Down
	case errors.As(why, &reply), errors.Is(why, errUnreadable):
		reason = backend.Refused
	case errors.Is(why, redis.ErrNoOwner), errors.Is(why, errSlow):
		reason = backend.Down
	}
	return &backend.Away{Reason: reason, Err: fmt.Errorf("%w: %w", ErrUnavailable, why)}
}

// handOver lets the checks of a call join the lanes of the servers that own their keys.
func (s *Store) handOver(c *call, now time.Time) {
	for i := range c.asks {
		a := &c.asks[i]
		client, err := s.servers.Owner(a.key)
		if err == nil {
			a.lane, err = s.lane(client)
		}
		if err == nil && i == 0 && a.lane.silent.Load() { // many leave at once, of whom few shall come late
			c.leave = c.leave.Add(-minMargin)
		}
		a.err, a.first, a.count = err, a, 1
		if err != nil {
			s.health.Heard(false)
			continue
		}
		c.link(i)
	}
	for i := range c.asks {
		a := &c.asks[i]
		switch {
		case a.first != a: // it has joined with the first one
		case a.err != nil:
			a.answer(a.err)
		default:
			s.join(a, now)
		}
	}
}

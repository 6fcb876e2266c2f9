// Package outbound sends checks to servers, in batches.
//
// Checks for one server wait in its queues. A queue sends a batch when none is in flight, or Config.Pace after the last
// one, up to a limit of batches in flight. Each server has a circuit breaker, which PINGs feed too, so that callers do
// not wait for a dead server. Each caller leaves at its deadline. A store's [Codec] and [Peer] speak its protocol.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

// maxReusedText is the largest text buffer, in bytes, of a call that goes back to the pool.
const maxReusedText = 64 << 10

var (
	// ErrLate is the error of a check whose caller had to leave before the answer came.
	ErrLate = errors.New("no answer in time")
	errBusy = errors.New("more checks wait for the server than it can answer in time")
)

// Codec puts checks into requests, and reads their answers. Its methods may be called by any number of goroutines.
type Codec[S any] interface {
	// Encode encodes a check into r.State, which may still have an old request's content. Encode may append to text, and
	// the State may refer to the appended bytes. It returns text and the queue for the request, or why there is none.
	Encode(text []byte, c *backend.Check, r *Request[S]) ([]byte, *Queue[S], error)
	// Decode reads the answer to a check.
	Decode(r *Request[S], c *backend.Check) (backend.Decision, error)
	// Reopen returns the queue that replaces one whose server was just closed, or why there is none.
	Reopen(closed *Queue[S]) (*Queue[S], error)
	// ReasonOf returns the reason for a request's error that is not a [backend.UnavailableError].
	ReasonOf(err error) backend.Reason
}

// Config has the settings of a store.
type Config struct {
	// ErrUnavailable is wrapped by a decision's Err when its check got no answer.
	ErrUnavailable error
	// Timeout is the timeout of a check whose caller has a later deadline or none.
	Timeout time.Duration
	// Pace is the least time between two batches while the first is in flight.
	Pace time.Duration
	// MinExchange is the least timeout of an exchange: it may outlast its callers' deadlines.
	MinExchange time.Duration
	// PingEvery is the interval of PINGs to a healthy server; 0 for none.
	PingEvery time.Duration
	// Trace, if not nil, is called for each exchange.
	Trace Trace
}

// Trace is called at the start of an exchange with a server, with the context of Decide for each check in it. It returns
// a function, or nil, that is called at the end with the Outcome and its error. Any number of goroutines may call it.
type Trace func(server string, callers iter.Seq[context.Context]) (end func(outcome string, err error))

// Engine decides checks on servers. Its methods may be called by any number of goroutines.
type Engine[S any] struct {
	config    Config
	codec     Codec[S]
	calls     sync.Pool // of *call
	batches   sync.Pool // of *Batch
	deadlines deadlines // of all waiting callers
	closed    atomic.Bool
	running   sync.WaitGroup // all goroutines of servers
	Totals
	Changes // of servers' states
}

// Totals are numbers since the start.
type Totals struct {
	Batches     atomic.Uint64 // sent
	Checks      atomic.Uint64 // in them
	Dropped     atomic.Uint64 // checks not sent, or not again, because their callers had left
	Unavailable atomic.Uint64 // checks without an answer
}

// New makes an engine without servers.
func New[S any](c Config, codec Codec[S]) *Engine[S] {
	e := &Engine[S]{config: c, codec: codec}
	e.calls.New = func() any {
		return &call[S]{caller: caller{done: make(chan struct{}, 1), leave: make(chan struct{}, 1)}}
	}
	e.batches.New = func() any { return new(Batch[S]) }
	return e
}

// Close makes Decide return ErrClosed, and reports whether it is the first call. The caller then closes the servers.
func (e *Engine[S]) Close() bool { return !e.closed.Swap(true) }

// Closed reports whether Close was called.
func (e *Engine[S]) Closed() bool { return e.closed.Load() }

// Wait waits until nothing runs for servers that were closed.
func (e *Engine[S]) Wait() { e.running.Wait() }

// Decide sends the checks to their servers. It returns after the timeout at the latest, and before ctx's deadline: by
// 2 ms or a tenth of the remaining time, whichever is more. The Err of a check without an answer wraps ErrUnavailable.
func (e *Engine[S]) Decide(ctx context.Context, checks []backend.Check, out []backend.Decision) error {
	if err := backend.Validate(checks, out); err != nil {
		return err
	}
	if e.closed.Load() {
		return backend.ErrClosed
	}
	now := time.Now()
	deadline := backend.Deadline(ctx, now, e.config.Timeout)
	if ctx.Err() != nil || !now.Before(deadline) {
		for i := range checks {
			e.fail(&out[i], cmp.Or(context.Cause(ctx), ErrLate))
		}
		return nil
	}
	return e.finish(ctx, e.begin(ctx, checks, now, deadline), checks, out)
}

// begin enqueues checks at the servers of their keys.
func (e *Engine[S]) begin(ctx context.Context, checks []backend.Check, now, deadline time.Time) *call[S] {
	c := e.calls.Get().(*call[S])
	c.makeRequests(checks, deadline)
	if e.config.Trace != nil {
		c.context = ctx
	}
	for i := range c.requests {
		r := &c.requests[i]
		var q *Queue[S]
		var err error
		if c.text, q, err = e.codec.Encode(c.text, &checks[i], r); err != nil {
			r.Answer(err)
			continue
		}
		if i == 0 && q.Server.lastExchangeLost.Load() { // many callers may leave at the same moment, which takes time
			c.deadline = c.deadline.Add(-backend.MinMargin)
		}
		c.addToGroup(r, q)
	}
	for i := range c.groups {
		e.enqueue(&c.groups[i], now)
	}
	e.deadlines.add(&c.caller, now)
	return c
}

// enqueue adds a group to its queue.
func (e *Engine[S]) enqueue(g *group[S], now time.Time) {
	for q := g.queue; !q.enqueue(g, now); { // its server has just been closed
		var err error
		if q, err = e.codec.Reopen(q); err != nil {
			g.refuse(err)
			return
		}
	}
}

// finish waits for the answers of a call, until its caller's deadline.
func (e *Engine[S]) finish(ctx context.Context, c *call[S], checks []backend.Check, out []backend.Decision) error {
	var cause error
	select {
	case <-c.done:
		e.deadlines.remove(&c.caller)
		err := e.decode(c, checks, out, nil)
		if c.context = nil; cap(c.text) <= maxReusedText {
			e.calls.Put(c)
		}
		return err
	case <-c.leave:
		cause = ErrLate
	case <-ctx.Done():
		e.deadlines.remove(&c.caller)
		cause = context.Cause(ctx)
	}
	c.abandoned.Store(true) // for the queues that still have its requests
	return e.decode(c, checks, out, cause)
}

// decode reads the answers of a call; cause is the error of requests without one. Its own error is ErrClosed or nil.
func (e *Engine[S]) decode(c *call[S], checks []backend.Check, out []backend.Decision, cause error) (closed error) {
	for i := range checks {
		r := &c.requests[i]
		err := cause
		if r.ready.Load() {
			err = r.err
			if err == nil {
				out[i], err = e.codec.Decode(r, &checks[i])
			}
		}
		if err != nil {
			e.fail(&out[i], err)
			if errors.Is(err, backend.ErrClosed) {
				closed = backend.ErrClosed
			}
		}
	}
	return closed
}

// fail sets a decision to that of a check without an answer.
func (e *Engine[S]) fail(d *backend.Decision, cause error) {
	e.Unavailable.Add(1)
	away, ok := cause.(*backend.UnavailableError)
	if !ok {
		away = &backend.UnavailableError{Reason: e.codec.ReasonOf(cause), Err: fmt.Errorf("%w: %w", e.config.ErrUnavailable, cause)}
	}
	*d = backend.Decision{Err: away}
}

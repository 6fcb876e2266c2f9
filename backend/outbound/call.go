package outbound

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

// Request is a check under way, with the state S that its store has of it. From when it joins a queue until it has its
// answer it belongs to the queue.
type Request[S any] struct {
	State  S
	caller *caller // nil for one that no caller's deadline ends
	ready  atomic.Bool
	err    error // why there is no answer
}

// Expired reports whether nobody waits for the answer any more.
func (r *Request[S]) Expired(now time.Time) bool { return r.caller != nil && r.caller.expired(now) }

// Deadline returns when the caller leaves at the latest.
func (r *Request[S]) Deadline() time.Time { return r.caller.deadline }

// Answer gives the caller the answer, which is in the State, or why there is none. From then on the request is the
// caller's.
func (r *Request[S]) Answer(err error) {
	r.err = err
	r.ready.Store(true)
	if c := r.caller; c.unanswered.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

// group is the requests of a call for one queue. They wait, leave and are dropped together.
type group[S any] struct {
	caller   *caller
	queue    *Queue[S]
	requests []*Request[S]
	joined   time.Time // when they joined the queue
}

// refuse answers the requests with an error. From then on the group is the caller's.
func (g *group[S]) refuse(err error) {
	for _, r := range g.requests {
		r.Answer(err)
	}
}

// caller is who waits in Decide.
type caller struct {
	context    context.Context // of Decide; nil unless exchanges are traced
	deadline   time.Time       // when it leaves at the latest
	abandoned  atomic.Bool
	unanswered atomic.Int32
	done       chan struct{} // has a token once all are answered
	leave      chan struct{} // has a token from the deadline on, if the caller waits so long
	index      int           // among the deadlines; -1: none
}

// expired reports whether the caller does not wait any more.
func (c *caller) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// call is one call of Decide, with all that queues need of it: the caller may leave before they are done.
type call[S any] struct {
	caller
	requests []Request[S]
	groups   []group[S]
	text     []byte // what the store writes of the checks
}

// set makes a request of each check.
func (c *call[S]) set(checks []backend.Check, deadline time.Time) {
	c.deadline = deadline
	c.unanswered.Store(int32(len(checks)))
	c.groups, c.text = c.groups[:0], c.text[:0]
	if cap(c.requests) < len(checks) {
		c.requests = make([]Request[S], len(checks))
	}
	c.requests = c.requests[:len(checks)]
	for i := range c.requests {
		r := &c.requests[i]
		r.caller, r.err = &c.caller, nil
		r.ready.Store(false)
	}
}

// join adds a request to the group for a queue.
func (c *call[S]) join(r *Request[S], q *Queue[S]) {
	for i := range c.groups {
		if g := &c.groups[i]; g.queue == q {
			g.requests = append(g.requests, r)
			return
		}
	}
	n := len(c.groups)
	c.groups = slices.Grow(c.groups, 1)[:n+1]
	g := &c.groups[n]
	*g = group[S]{caller: &c.caller, queue: q, requests: append(g.requests[:0], r)} // in the room of a former one
}

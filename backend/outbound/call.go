package outbound

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

// Request is a check in flight. The queue owns it from when it is enqueued until it is answered.
type Request[S any] struct {
	State  S       // the store's own state of the check
	caller *caller // nil if no caller waits for it
	ready  atomic.Bool
	err    error // why there is no answer
}

// Expired reports whether the request's caller has left.
func (r *Request[S]) Expired(now time.Time) bool { return r.caller != nil && r.caller.expired(now) }

// Deadline returns when the request's caller leaves at the latest.
func (r *Request[S]) Deadline() time.Time { return r.caller.deadline }

// Answer returns the request to its caller. If err is nil, State has the answer; else err says why there is none.
func (r *Request[S]) Answer(err error) {
	r.err = err
	r.ready.Store(true)
	if c := r.caller; c.unanswered.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

// group is the requests of a call for one queue. They are enqueued, sent and dropped together.
type group[S any] struct {
	caller     *caller
	queue      *Queue[S]
	requests   []*Request[S]
	enqueuedAt time.Time // on the queue's entry
}

// refuse answers all requests of the group with an error.
func (g *group[S]) refuse(err error) {
	for _, r := range g.requests {
		r.Answer(err)
	}
}

// caller is a goroutine that waits in Decide.
type caller struct {
	context    context.Context // of Decide; nil unless exchanges are traced
	deadline   time.Time       // when it leaves at the latest
	abandoned  atomic.Bool
	unanswered atomic.Int32
	done       chan struct{} // gets a token when all requests are answered
	leave      chan struct{} // gets a token at the deadline, if the caller still waits
	index      int           // in deadlines.callers; -1 if it is not there
}

// expired reports whether the caller no longer waits.
func (c *caller) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// call is one call of Decide. It has copies of all that queues need, because the caller may leave before they are done.
type call[S any] struct {
	caller
	requests []Request[S]
	groups   []group[S]
	text     []byte // buffer of the store's encoded checks
}

// makeRequests makes a request of each check.
func (c *call[S]) makeRequests(checks []backend.Check, deadline time.Time) {
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

// addToGroup adds a request to the group for a queue, and makes the group if needed.
func (c *call[S]) addToGroup(r *Request[S], q *Queue[S]) {
	for i := range c.groups {
		if g := &c.groups[i]; g.queue == q {
			g.requests = append(g.requests, r)
			return
		}
	}
	n := len(c.groups)
	c.groups = slices.Grow(c.groups, 1)[:n+1]
	g := &c.groups[n]
	*g = group[S]{caller: &c.caller, queue: q, requests: append(g.requests[:0], r)} // reuses the memory of an old group
}

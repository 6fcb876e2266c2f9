package outbound

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

// Request is a check in flight, with the store's own state S of it. The queue owns it from when it is enqueued until it
// is answered.
type Request[S any] struct {
	State  S
	caller *caller // nil if no caller waits for it
	ready  atomic.Bool
	err    error // why there is no answer
}

// Expired reports whether its caller has left.
func (r *Request[S]) Expired(now time.Time) bool { return r.caller != nil && r.caller.expired(now) }

// Deadline returns when its caller leaves at the latest.
func (r *Request[S]) Deadline() time.Time { return r.caller.deadline }

// Answer returns the request to its caller: with the answer, which is in State, if err is nil, else with the reason why
// there is none.
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
	enqueuedAt time.Time // when they joined the queue
}

// refuse answers the requests with an error, which returns the group to its caller.
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
	done       chan struct{} // has a token once all are answered
	leave      chan struct{} // has a token from the deadline on, if the caller waits so long
	index      int           // among the deadlines; -1: none
}

// expired reports whether the caller no longer waits.
func (c *caller) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// call is one call of Decide, with copies of all that queues need: the caller may leave before they are done.
type call[S any] struct {
	caller
	requests []Request[S]
	groups   []group[S]
	text     []byte // buffer of the store's encoded checks
}

// set makes a request of each check.
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

// join adds a request to the group for a queue.
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

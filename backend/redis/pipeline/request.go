package pipeline

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Request is a question to the server that owns a key, mostly a check, and its state.
type Request struct {
	topology.At
	Route Route
	class Class
	err   error // why there is no answer
	call  *call // of a check; else nil
	ready atomic.Bool

	// For its Codec:

	Payload Blob     // what is asked about the key
	Command *Command // what carries the request now; nil if nothing was sent
	Counted bool     // it has its answer, so what it still has to send is sent though its caller has left
	State   any      // what else the codec knows of it

	// Of a call of a script:

	item  int // its place among the requests of the command
	reply string
}

// written reports whether the server may have seen the request.
func (r *Request) written() bool {
	return r.Counted || r.Command != nil && r.Command.Written
}

// expired reports whether the caller of a check does not wait any more, and the check need not be finished.
func (r *Request) expired(now time.Time) bool {
	return r.call != nil && !r.Counted && r.call.expired(now)
}

// answer gives the caller the reply, or why there is none. From then on the request is not the queue's.
func (r *Request) answer(err error) {
	r.err = err
	r.ready.Store(true)
	if c := r.call; c.unanswered.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

// group is the requests of a call for one server. They wait, leave and are dropped together.
type group struct {
	call     *call
	queue    *queue
	requests []*Request
	joined   time.Time // when they joined the queue
}

// refuse answers the requests with an error. From then on the group is the caller's.
func (g *group) refuse(err error) {
	for _, r := range g.requests {
		r.answer(err)
	}
}

// call is one call of Decide, with all that queues need of it: the caller may leave before they are done.
type call struct {
	requests   []Request
	groups     []group
	text       []byte    // the keys and payloads of requests
	deadline   time.Time // when the caller leaves at the latest
	abandoned  atomic.Bool
	unanswered atomic.Int32
	done       chan struct{} // has a token once all are answered, and one from the deadline on if the caller waits so long
	index      int           // among the deadlines; -1: none
}

func newCall() *call { return &call{done: make(chan struct{}, 2)} }

// set keeps what is needed of the checks.
func (c *call) set(checks []backend.Check, codec Codec, deadline time.Time) {
	c.deadline = deadline
	c.unanswered.Store(int32(len(checks)))
	c.groups, c.text = c.groups[:0], c.text[:0]
	if cap(c.requests) < len(checks) {
		c.requests = make([]Request, len(checks))
	}
	c.requests = c.requests[:len(checks)]
	for i := range checks {
		r := &c.requests[i]
		r.call = c
		c.text = codec.Encode(c.text, &checks[i], r)
	}
}

// expired reports whether the caller does not wait any more.
func (c *call) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// join adds a request to the group for a queue.
func (c *call) join(r *Request, q *queue) {
	for i := range c.groups {
		if g := &c.groups[i]; g.queue == q {
			g.requests = append(g.requests, r)
			return
		}
	}
	n := len(c.groups)
	c.groups = slices.Grow(c.groups, 1)[:n+1]
	g := &c.groups[n]
	*g = group{call: c, queue: q, requests: append(g.requests[:0], r)} // in the room of a former one
}

package pipeline

import (
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

	// Of a check; while it is in a queue it is the queue's.
	call   *call
	queue  *queue
	first  *Request  // the call's first one in the same queue
	next   *Request  // the call's next one there
	count  int       // how many they are; only the first one's counts, as does
	joined time.Time // when they joined the queue
	ready  atomic.Bool

	// For its Codec:

	Payload Blob     // what is asked about the key
	Command *Command // what carries the request now; nil if nothing was sent
	Item    int      // its place among the requests of the command
	Reply   string
	Counted bool // it has its answer, so what it still has to send is sent though its caller has left
	State   any  // what else the codec knows of it
}

// written reports whether the server may have seen the request.
func (r *Request) written() bool {
	return r.Counted || r.Command != nil && r.Command.Written
}

// answer gives the caller the reply, or why there is none. From then on the request is not the queue's.
func (r *Request) answer(err error) {
	r.err = err
	r.ready.Store(true)
	if c := r.call; c.unanswered.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

// refuse answers the requests of a call, from first on, with an error.
func refuse(first *Request, err error) {
	for r := first; r != nil; {
		next := r.next
		r.answer(err)
		r = next
	}
}

// call is one call of Decide, with all that queues need of it: the caller may leave before they are done.
type call struct {
	requests   []Request
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
	c.text = c.text[:0]
	if cap(c.requests) < len(checks) {
		c.requests = make([]Request, len(checks))
	}
	c.requests = c.requests[:len(checks)]
	for i := range checks {
		r := &c.requests[i]
		r.call, r.first, r.count = c, r, 1
		c.text = codec.Encode(c.text, &checks[i], r)
	}
}

// expired reports whether the caller does not wait any more.
func (c *call) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// link ties a request to the one before it in the same queue, if there is one.
func (c *call) link(i int) {
	r := &c.requests[i]
	for j := i - 1; j >= 0; j-- {
		if before := &c.requests[j]; before.queue == r.queue {
			before.next, r.first = r, before.first
			r.first.count++
			return
		}
	}
}

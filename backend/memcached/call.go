package memcached

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/incr"
	"github.com/weirproxy/weir/descriptors"
)

// request is a check under way. From enqueue until it is ready it belongs to its queue.
type request struct {
	call     *call
	queue    *queue        // nil if there is no server
	check    backend.Check // with a copy of its limits, and without its key
	name     []byte        // of the key in memcached
	plain    bool          // the key is envoyproxy/ratelimit's, a number
	window   incr.Window   // of a plain one
	missing  bool          // a number was not there
	tries    int           // exchanges that it took part in
	ready    atomic.Bool
	decision backend.Decision
}

// answer gives the caller a decision, or why there is none. From then on the request is not the queue's.
func (r *request) answer(d backend.Decision) {
	r.decision = d
	r.ready.Store(true)
	if r.call.waiting.Add(-1) == 0 {
		r.call.done <- struct{}{}
	}
}

func (r *request) refuse(why *backend.Away) { r.answer(backend.Decision{Err: why}) }

// call is one call of Decide, with copies of all that queues need: the caller may leave before they are done.
type call struct {
	requests  []request
	text      []byte // names
	limits    []descriptors.Limit
	began     time.Time
	deadline  time.Time     // when the caller leaves at the latest
	abandoned atomic.Bool   // the caller has left
	waiting   atomic.Int32  // requests without an answer
	done      chan struct{} // has a token once there are none
	timer     *time.Timer
}

func newCall() *call {
	c := &call{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// expired reports whether the caller does not wait any more.
func (c *call) expired(now time.Time) bool { return c.abandoned.Load() || !now.Before(c.deadline) }

// release drops what it points to.
func (c *call) release() {
	clear(c.requests)
	clear(c.limits)
	c.requests, c.text, c.limits = c.requests[:0], c.text[:0], c.limits[:0]
}

// set makes a request of each check, and finds the server and the queue of its key.
func (c *call) set(s *Store, checks []backend.Check, began, deadline time.Time) {
	c.began, c.deadline = began, deadline
	c.waiting.Store(int32(len(checks)))
	c.requests = slices.Grow(c.requests, len(checks))[:len(checks)]
	servers := *s.servers.Load()
	for i := range checks {
		r := &c.requests[i]
		r.call, r.check = c, checks[i]
		r.check.Key = nil
		from := len(c.limits)
		c.limits = append(c.limits, checks[i].Limits...)
		r.check.Limits = c.limits[from:len(c.limits):len(c.limits)]
		if len(servers) == 0 {
			continue
		}
		var at place
		if stem, plain := descriptors.PlainStem(checks[i].Key); plain {
			r.plain, r.window = true, s.config.Keys.Window(&r.check.Limits[0], s.config.now())
			c.text, at = servers.placePlain(c.text, stem, r.window)
		} else {
			c.text, at = servers.placeOwn(c.text, checks[i].Key, "")
		}
		r.name, r.queue = at.name, at.server.queues[at.hash%uint64(len(at.server.queues))]
	}
}

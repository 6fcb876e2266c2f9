package pipeline

import (
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

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
	Number  Number
}

// Number is the state of a check with a key of envoyproxy/ratelimit.
type Number struct {
	TTL      Blob
	Add      int64         // what the check adds
	Rest     time.Duration // of the window
	Look     bool
	Counted  bool     // it is counted, or was looked at: it has its answer, and is finished though its caller has left
	After    int64    // what the key held then
	Back     int64    // what is still to be added, since that went too far
	Expiring bool     // the key has its TTL, or none is to be had
	Expire   *Command // what sets it
}

// written reports whether the server may have seen the request.
func (r *Request) written() bool {
	return r.Number.Counted || r.Command != nil && r.Command.Written
}

// answer gives the caller the reply, or why there is none. From then on the request is not the queue's.
func (r *Request) answer(err error) {
	r.err = err
	r.ready.Store(true)
	if c := r.call; c.waiting.Add(-1) == 0 {
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
	requests  []Request
	text      []byte    // the keys and payloads of requests
	deadline  time.Time // when the caller leaves at the latest
	abandoned atomic.Bool
	waiting   atomic.Int32  // requests without an answer
	done      chan struct{} // has a token once there are none
	timer     *time.Timer   // fires at the deadline
}

func newCall() *call {
	c := &call{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// set keeps what is needed of the checks.
func (c *call) set(checks []backend.Check, codec Codec, deadline time.Time) {
	c.deadline = deadline
	c.waiting.Store(int32(len(checks)))
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

// Blob is bytes that go-redis writes without a copy, if given a pointer.
type Blob []byte

// MarshalBinary gives the bytes themselves.
func (b *Blob) MarshalBinary() ([]byte, error) { return *b, nil }

// Cut returns text, and the part of it from an index on, which stays valid when text grows.
func Cut(text []byte, from int) ([]byte, Blob) { return text, text[from:len(text):len(text)] }

// Codec puts checks into commands, and reads the replies. Its methods may be called by any number of goroutines, those
// that are given a Request or a Batch by the one that has it.
type Codec interface {
	// Encode appends to text what is sent of a check, and lets the request have it: at least its key.
	Encode(text []byte, c *backend.Check, r *Request) []byte
	// Write adds the commands of requests to a batch. They lead to one server.
	Write(b *Batch, requests []*Request)
	// Read returns what the reply to a request proves, and why it has no answer, if it has none.
	Read(b *Batch, r *Request) (Class, error)
	// Decode reads the answer to a check.
	Decode(r *Request, c *backend.Check) (backend.Decision, error)
}

// ReplyError is what went wrong with one request of a command that was answered.
type ReplyError string

// Error returns its text.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes it one of go-redis's errors of servers.
func (ReplyError) RedisError() {}

var _ goredis.Error = ReplyError("")

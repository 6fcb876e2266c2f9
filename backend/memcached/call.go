package memcached

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/incr"
	"github.com/weirproxy/weir/descriptors"
)

// digest is the part of SHA-256 that names a key of weir's: no two keys are known to have the same.
type digest [18]byte

// ownPrefix begins the names of weir's own keys, which are always legal in memcached.
const ownPrefix = "weir:"

func digestOf(key []byte) digest {
	sum := sha256.Sum256(key)
	return digest(sum[:len(digest{})])
}

func (d *digest) appendName(dst []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(dst, ownPrefix...), d[:])
}

func (d *digest) hash() uint64 { return binary.LittleEndian.Uint64(d[:]) }

// legal reports whether memcached, and envoyproxy/ratelimit's client, take a name.
func legal(name []byte) bool {
	if len(name) > maxName {
		return false
	}
	for _, b := range name {
		if b <= ' ' || b == 0x7f {
			return false
		}
	}
	return true
}

// request is a check under way. From enqueue until it is ready it belongs to its queue.
type request struct {
	call     *call
	queue    *queue
	check    backend.Check // with copies of its key and limits
	name     []byte        // in memcached
	digest   digest        // of a key of weir's
	plain    bool          // its key is envoyproxy/ratelimit's, counted by incr
	number   number        // of a plain one
	next     *request      // the next one of the same key in an exchange
	tries    int           // exchanges that it took part in
	raced    atomic.Bool   // it lost a race: another process changed the key between read and write
	written  atomic.Bool   // it was sent, and may be counted
	ready    atomic.Bool
	decision backend.Decision
}

// answer gives the caller a decision, or why there is none.
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
	text      []byte
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
	c.text, c.limits = c.text[:0], c.limits[:0]
}

// set copies the checks, and finds the server and the queue of each.
func (c *call) set(s *Store, checks []backend.Check, now, deadline time.Time) {
	c.began, c.deadline = now, deadline
	c.waiting.Store(int32(len(checks)))
	if cap(c.requests) < len(checks) {
		c.requests = make([]request, len(checks))
	}
	c.requests = c.requests[:len(checks)]
	servers := *s.servers.Load()
	for i := range checks {
		r := &c.requests[i]
		r.call, r.check = c, checks[i]
		r.check.Key = c.copied(checks[i].Key)
		from := len(c.limits)
		c.limits = append(c.limits, checks[i].Limits...)
		r.check.Limits = c.limits[from:len(c.limits):len(c.limits)]
		if len(servers) == 0 {
			continue
		}
		v, hash := c.locate(s, servers, r)
		r.queue = v.queues[hash%uint64(len(v.queues))]
	}
}

// locate names a request's key in memcached. It returns its server, and a hash by which to choose among its
// connections.
func (c *call) locate(s *Store, servers serverList, r *request) (*server, uint64) {
	stem, plain := descriptors.PlainStem(r.check.Key)
	from := len(c.text)
	if r.plain = plain; !plain {
		r.digest = digestOf(r.check.Key)
		c.text = r.digest.appendName(c.text)
		r.name = c.text[from:len(c.text):len(c.text)]
		return servers.byRendezvous(r.digest.hash()), r.digest.hash() >> 32
	}
	w := s.config.Keys.Window(&r.check.Limits[0], s.config.now())
	r.number = number{rest: w.Rest, life: s.config.Keys.TTL(w)}
	var hash uint64
	var v *server
	c.text, v, hash = plainName(c.text, stem, w, servers)
	r.name = c.text[from:len(c.text):len(c.text)]
	return v, hash
}

// plainName appends the name of a key of envoyproxy/ratelimit's in a window, and returns its server and a hash. A name
// that memcached does not take, for which that program limits nothing, is replaced and placed as one of weir's own.
func plainName(dst, stem []byte, w incr.Window, servers serverList) ([]byte, *server, uint64) {
	from := len(dst)
	dst = w.AppendKey(dst, stem)
	name := dst[from:]
	if legal(name) {
		v := servers.byModulo(name)
		return dst, v, idOf(name)
	}
	d := digestOf(name)
	dst = append(d.appendName(dst[:from]), "_n"...)
	return dst, servers.byRendezvous(d.hash()), d.hash() >> 32
}

func (c *call) copied(text []byte) []byte {
	from := len(c.text)
	c.text = append(c.text, text...)
	return c.text[from:len(c.text):len(c.text)]
}

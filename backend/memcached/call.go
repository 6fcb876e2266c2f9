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

// ownPrefix begins the names of weir's own keys. All of them are short and of plain characters.
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

// request is a check on its way. From enqueue until it is ready it is its lane's.
type request struct {
	call     *call
	lane     *lane
	check    backend.Check // with copies of its key and limits
	name     []byte        // in memcached
	digest   digest        // of a key of weir's
	plain    bool          // it is counted by incr
	number   number        // then
	next     *request      // of the same key in an exchange
	tries    int           // exchanges that ended without an answer
	raced    atomic.Bool   // another process has changed the key meanwhile
	written  atomic.Bool   // it may be counted
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

// call is one call of Decide, with copies of all that lanes need: the caller may leave before they are done.
type call struct {
	requests []request
	text     []byte
	limits   []descriptors.Limit
	began    time.Time
	deadline time.Time // when the caller leaves at the latest
	left     atomic.Bool
	waiting  atomic.Int32  // requests without an answer
	done     chan struct{} // has a token once there are none
	timer    *time.Timer
}

func newCall() *call {
	c := &call{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// gone reports whether the caller does not wait any more.
func (c *call) gone(now time.Time) bool { return c.left.Load() || !now.Before(c.deadline) }

// release drops what it points to.
func (c *call) release() {
	clear(c.requests)
	clear(c.limits)
	c.text, c.limits = c.text[:0], c.limits[:0]
}

// set copies the checks, and finds where each is counted.
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
		v, hash := c.place(s, servers, r)
		r.lane = v.lanes[hash%uint64(len(v.lanes))]
	}
}

// place names a request's key in memcached. It returns its server, and a hash by which to choose among its connections.
func (c *call) place(s *Store, servers fleet, r *request) (*server, uint64) {
	stem, plain := descriptors.PlainStem(r.check.Key)
	from := len(c.text)
	if r.plain = plain; !plain {
		r.digest = digestOf(r.check.Key)
		c.text = r.digest.appendName(c.text)
		r.name = c.text[from:len(c.text):len(c.text)]
		return servers.own(r.digest.hash()), r.digest.hash() >> 32
	}
	w := s.config.Keys.Window(&r.check.Limits[0], s.config.now())
	r.number = number{rest: w.Rest, life: s.config.Keys.TTL(w)}
	var hash uint64
	var v *server
	c.text, v, hash = plainName(c.text, stem, w, servers)
	r.name = c.text[from:len(c.text):len(c.text)]
	return v, hash
}

// plainName appends the name of a key of envoyproxy/ratelimit's in a window, and returns its server and a hash. One that
// memcached does not take, which that program leaves unlimited, gets a name and a place as weir's own keys have.
func plainName(dst, stem []byte, w incr.Window, servers fleet) ([]byte, *server, uint64) {
	from := len(dst)
	dst = w.AppendKey(dst, stem)
	name := dst[from:]
	if legal(name) {
		v := servers.plain(name)
		return dst, v, idOf(name)
	}
	d := digestOf(name)
	dst = append(d.appendName(dst[:from]), "_n"...)
	return dst, servers.own(d.hash()), d.hash() >> 32
}

func (c *call) copied(text []byte) []byte {
	from := len(c.text)
	c.text = append(c.text, text...)
	return c.text[from:len(c.text):len(c.text)]
}

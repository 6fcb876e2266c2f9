package memcached

import (
	"cmp"
	"strconv"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/incr"
)

// number is the state of a check whose key is a number.
type number struct {
	rest  time.Duration // of the window
	life  int64         // of the key, in seconds
	step  step
	after int64 // what the key held then, where it is counted
}

// step is the next command of a check.
type step uint8

const (
	stepCount step = iota // incr, which fails without a key; get for a look, get and decr for a refund
	stepAdd               // add, which fails if there is a key
	stepBack              // decr of the hits beyond the limit
)

// writeNumbers buffers the next command of each request. Only the first add of a key is sent; the others become incr,
// which finds the key by then.
func writeNumbers(c *conn, all []*request) {
	for i, r := range all {
		n, by := &r.number, incr.By(&r.check)
		if n.step == stepAdd {
			for _, before := range all[:i] {
				if before.number.step == stepAdd && string(before.name) == string(r.name) {
					n.step = stepCount
				}
			}
		}
		switch {
		case n.step == stepBack:
			c.count("decr", r.name, -incr.Back(by, n.after))
		case n.step == stepAdd:
			r.written.Store(true)
			c.store(r.name, expiry(n.life), strconv.AppendInt(nil, by, 10), nil)
		case by > 0:
			r.written.Store(true)
			c.count("incr", r.name, by)
		default:
			c.gets(1, func(int) []byte { return r.name })
			if by < 0 {
				r.written.Store(true)
				c.count("decr", r.name, -by)
			}
		}
	}
}

// readNumber reads the answers to a step. It reports false if the check has no answer yet. An error that it returns is
// about the connection; what the server refuses is the request's answer.
func (r *request) readNumber(c *conn) (answered bool, err error) {
	n, by := &r.number, incr.By(&r.check)
	done, err := r.readStep(c, by)
	why, err := refused(err)
	switch {
	case err != nil:
		return false, err
	case why != nil:
		r.refuse(r.queue.server.unavailable(backend.Refused, why))
		return true, nil
	case !done: // and not counted: stepCount and stepAdd take turns
		n.step = stepAdd - n.step
		r.written.Store(false)
		return false, nil
	case by > 0 && n.step == stepCount && incr.Back(by, n.after) != 0:
		n.step = stepBack
		return false, nil
	}
	r.answer(incr.Decide(&r.check, n.after, n.rest))
	return true, nil
}

// readStep reads the answers to a step, and what the key then holds. It reports false for an incr without a key, or an add
// where there is one.
func (r *request) readStep(c *conn, by int64) (done bool, err error) {
	n := &r.number
	switch {
	case n.step == stepBack:
		_, _, err = c.counted()
		_, err = refused(err) // it is over whatever the answer is
		return true, err
	case n.step == stepAdd:
		n.after = by
		word, err := c.word("STORED", "NOT_STORED")
		return word == "STORED", err
	case by > 0:
		n.after, done, err = c.counted()
		return done, err
	}
	n.after = 0
	var unread error
	err = c.values(func(v value) error {
		n.after, unread = parseCount(v.data)
		return nil
	})
	if by < 0 && err == nil {
		_, _, err = c.counted()
		n.after += by
	}
	return true, cmp.Or(err, unread)
}

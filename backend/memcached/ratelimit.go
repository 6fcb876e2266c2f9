package memcached

import (
	"cmp"
	"strconv"

	"github.com/weirproxy/weir/backend/ratelimit"
)

// writeNumber buffers the command that counts a check by a number: incr or, if the last incr found no key, add. If add
// then finds a key, the next exchange sends incr again. A look sends gets, a refund gets and decr.
func (x *exchange) writeNumber(g *group) {
	r, c := g.requests[0], x.conn
	by := ratelimit.Delta(&r.State.Check)
	g.written = by != 0
	switch {
	case by > 0 && r.State.missing:
		c.addOrSwap(g.name, x.server.store.config.Keys.TTL(r.State.window), strconv.AppendInt(nil, by, 10), nil)
	case by > 0:
		c.write("incr ", g.name, " ", by, "\r\n")
	default:
		c.write("gets ", g.name, "\r\n")
		if by < 0 {
			c.write("decr ", g.name, " ", -by, "\r\n")
		}
	}
}

// readNumber reads the replies to the commands of writeNumber. Its error is the server's refusal, or one of the
// connection.
func (x *exchange) readNumber(g *group) (err error) {
	r, c := g.requests[0], x.conn
	by := ratelimit.Delta(&r.State.Check)
	after, counted := by, true // if there is no key
	switch {
	case by > 0 && r.State.missing:
		var word string
		word, err = c.readWord("STORED", "NOT_STORED")
		counted = word == "STORED"
	case by > 0:
		after, counted, err = c.readCount()
	default:
		err = c.readOne(func(data []byte) error {
			before, unread := parseCount(data)
			after = before + by
			return unread
		})
		if by < 0 && (err == nil || isRefusal(err)) {
			_, _, failed := c.readCount()
			err = cmp.Or(failed, err)
		}
	}
	switch {
	case err != nil:
		return err
	case !counted:
		r.State.missing = !r.State.missing
		x.requeue(g)
	default:
		if excess := -ratelimit.Correction(by, after); by > 0 && excess > 0 { // the check is denied even if decr fails
			c.write("decr ", g.name, " ", excess, " noreply\r\n")
		}
		r.State.decision = ratelimit.Decide(&r.State.Check, after, r.State.window.TimeLeft)
		x.finish(g, nil)
	}
	return nil
}

package memcached

import (
	"cmp"
	"strconv"

	"github.com/weirproxy/weir/backend/ratelimit"
)

// writeNumber buffers the commands of a check of a number: incr; if there is no key, add in the next exchange; if there is
// one by then, incr again, and so on; gets for a look; gets and decr for a refund.
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

// readNumber reads the answer to what writeNumber wrote. Its error is the server's refusal, or about the connection.
func (x *exchange) readNumber(g *group) (err error) {
	r, c := g.requests[0], x.conn
	by := ratelimit.Delta(&r.State.Check)
	after, there := by, true // without a key
	switch {
	case by > 0 && r.State.missing:
		var word string
		word, err = c.readWord("STORED", "NOT_STORED")
		there = word == "STORED"
	case by > 0:
		after, there, err = c.readCount()
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
	case !there:
		r.State.missing = !r.State.missing
		x.repeat(g)
	default:
		if back := -ratelimit.Correction(by, after); by > 0 && back > 0 { // the check is denied even if decr fails
			c.write("decr ", g.name, " ", back, " noreply\r\n")
		}
		r.State.decision = ratelimit.Decide(&r.State.Check, after, r.State.window.TimeLeft)
		x.finish(g, nil)
	}
	return nil
}

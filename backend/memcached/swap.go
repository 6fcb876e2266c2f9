package memcached

import (
	"bytes"
	"errors"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
)

// writeGets buffers gets for the values of unfinished groups, and reports whether there are any.
func (x *exchange) writeGets() (found bool) {
	for g := range unfinished(x.values) {
		if !found {
			x.conn.write("gets")
		}
		x.conn.write(" ", g.name)
		found = true
	}
	if found {
		x.conn.write("\r\n")
	}
	return found
}

// readValues reads the reply to gets, and decides each group on its value, an empty one if there is none.
func (x *exchange) readValues() error {
	v, err := x.conn.readValue()
	for g := range unfinished(x.values) {
		switch {
		case err != nil:
			return err
		case bytes.Equal(v.name, g.name):
			x.decide(g, v)
			v, err = x.conn.readValue()
		default:
			x.decide(g, value{})
		}
	}
	if err == nil && v.name != nil {
		err = errors.New("memcached answers with a value that was not asked for")
	}
	return err
}

// decide decides the checks of a key on its value, in order, and buffers the value if they have changed it, which
// denials and looks do not.
func (x *exchange) decide(g *group, found value) {
	var e entry
	if found.name != nil {
		if err := e.read(found.data); err != nil {
			x.finish(g, x.server.Unavailable(backend.Refused, err))
			return
		}
	}
	now := e.clock(x.server.store)
	var room [4]window.State
	for _, r := range g.requests {
		r.State.decision, _ = e.states.Decide(&r.State.Check, now, room[:0])
	}
	live, expires := e.states.DropExpired(now)
	e = entry{at: now, states: live, readStates: e.readStates}
	x.text = e.append(x.text[:0])
	if bytes.Equal(x.text[headSize:], e.readStates) {
		x.finish(g, nil)
		return
	}
	ttl := int64(-1) // expires at once
	if len(live) > 0 {
		ttl = ttlUntil(now, expires)
	}
	g.written = true
	x.conn.addOrSwap(g.name, ttl, x.text, found.unique)
}

// readStored reads whether a value was stored. If another process has changed it meanwhile, readStored requeues the
// checks. Its error is the server's refusal, or one of the connection.
func (x *exchange) readStored(g *group) error {
	word, err := x.conn.readWord("STORED", "EXISTS", "NOT_FOUND", "NOT_STORED")
	switch {
	case err != nil:
		return err
	case word == "STORED":
		x.finish(g, nil)
	default:
		x.server.store.lostRaces.Add(1)
		x.requeue(g)
	}
	return nil
}

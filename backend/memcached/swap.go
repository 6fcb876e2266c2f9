package memcached

import (
	"bytes"
	"errors"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
)

// writeGets buffers gets for the values whose checks are not settled, if there are any.
func (q *queue) writeGets() (asked bool) {
	for g := range unsettled(q.values) {
		if !asked {
			q.conn.write("gets")
		}
		q.conn.write(" ", g.name)
		asked = true
	}
	if asked {
		q.conn.write("\r\n")
	}
	return asked
}

// readValues reads the answer to writeGets, and decides each group on its value, empty if there is none.
func (q *queue) readValues() error {
	v, err := q.conn.readValue()
	for g := range unsettled(q.values) {
		switch {
		case err != nil:
			return err
		case bytes.Equal(v.name, g.name):
			q.decide(g, v)
			v, err = q.conn.readValue()
		default:
			q.decide(g, value{})
		}
	}
	if err == nil && v.name != nil {
		err = errors.New("memcached answers with a value that was not asked for")
	}
	return err
}

// decide decides the checks of a key on its value, one after the other, and sends the new value unless it is the same:
// a denial or a look changes nothing.
func (q *queue) decide(g *group, found value) {
	var e entry
	if found.name != nil {
		if err := e.read(found.data); err != nil {
			q.settle(g, q.server.unavailable(backend.Refused, err))
			return
		}
	}
	now := e.clock(q.server.store)
	var room [4]window.State
	for _, r := range g.requests {
		r.decision, _ = e.states.Decide(&r.check, now, room[:0])
	}
	kept, expires := e.states.DropExpired(now)
	e = entry{at: now, states: kept, before: e.before}
	q.text = e.append(q.text[:0])
	if bytes.Equal(q.text[headSize:], e.before) {
		q.settle(g, nil)
		return
	}
	life := int64(-1) // expires at once
	if len(kept) > 0 {
		life = lifeUntil(now, expires)
	}
	g.sent = true
	q.conn.addOrSwap(g.name, life, q.text, found.unique)
}

// readStored reads whether a value is stored. Checks of a key that another process has changed are asked again.
// Its error is the server's refusal, or about the connection.
func (q *queue) readStored(g *group) error {
	word, err := q.conn.readWord("STORED", "EXISTS", "NOT_FOUND", "NOT_STORED")
	switch {
	case err != nil:
		return err
	case word == "STORED":
		q.settle(g, nil)
	default:
		q.server.store.lostRaces.Add(1)
		q.repeat(g)
	}
	return nil
}

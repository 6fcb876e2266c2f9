package memcached

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/window"
)

// swaps are the checks of an exchange that are counted in values, grouped by key: all checks of a key are decided one
// after the other on the value that is read, and written together. It is reused.
type swaps struct {
	groups []*group
	pool   [maxBatch]group
	at     map[digest]*group
	sent   []*group // whose new values are written, in this order
	text   []byte   // one of them
}

// group is the checks of one key.
type group struct {
	first, last *request
	nonce       uint64 // of the new value
	decided     bool   // by what was read
	settled     bool   // its checks are answered, or will be asked again
}

func (s *swaps) reset() {
	if s.at == nil {
		s.at = make(map[digest]*group, maxBatch)
	}
	clear(s.at)
	clear(s.pool[:len(s.groups)])
	s.groups, s.sent = s.groups[:0], s.sent[:0]
}

// add adds a check to the group of its key.
func (s *swaps) add(r *request) {
	r.next = nil
	if g := s.at[r.digest]; g != nil {
		g.last.next, g.last = r, r
		return
	}
	g := &s.pool[len(s.groups)]
	g.first, g.last = r, r
	s.at[r.digest] = g
	s.groups = append(s.groups, g)
}

// ask buffers gets commands for the values of groups, and returns how many.
func ask(c *conn, groups []*group) (lines int) {
	return c.gets(len(groups), func(i int) []byte { return groups[i].first.name })
}

// read reads the answers to ask, and calls take for each value that is there.
func read(c *conn, lines int, groups []*group, take func(*group, value)) error {
	i := 0
	for range lines {
		err := c.values(func(v value) error {
			for i < len(groups) {
				g := groups[i]
				if i++; bytes.Equal(g.first.name, v.name) {
					take(g, v) // g may be its caller's from here on
					return nil
				}
			}
			return errors.New("memcached answers with a value that was not asked for")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// swap reads the values, decides, writes those that changed, and answers their checks. Checks of a key that another
// process changed meanwhile are asked again.
func (q *queue) swap(c *conn, lines int) error {
	groups := q.swaps.groups
	if err := read(c, lines, groups, func(g *group, v value) { q.decide(c, g, v) }); err != nil {
		return err
	}
	for _, g := range groups {
		if !g.decided {
			q.decide(c, g, value{})
		}
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	for _, g := range q.swaps.sent {
		word, err := c.word("STORED", "EXISTS", "NOT_FOUND", "NOT_STORED")
		why, err := refused(err)
		switch {
		case err != nil:
			return err
		case why != nil:
			q.settle(g, q.server.unavailable(backend.Refused, why))
		case word == "STORED":
			q.settle(g, nil)
		default:
			q.server.store.lostRaces.Add(1)
			g.settled = true
			for r := g.first; r != nil; r = r.next {
				r.raced.Store(true)
				r.written.Store(false)
				q.again = append(q.again, r)
			}
		}
	}
	return nil
}

// settle answers the checks of a group with their decisions or, if why is not nil, with that error.
func (q *queue) settle(g *group, why *backend.Away) {
	g.settled = true
	for r := g.first; r != nil; {
		next := r.next // an answered request belongs to its caller
		if why != nil {
			r.refuse(why)
		} else {
			r.answer(r.decision)
		}
		r = next
	}
}

// decide decides the checks of a key on its value, empty if there is none, and sends the new value unless it is the
// same: a denial or a look changes nothing.
func (q *queue) decide(c *conn, g *group, found value) {
	store, e := q.server.store, entry{key: g.first.check.Key}
	g.decided = true
	if found.name != nil {
		if err := e.read(found.data); err != nil {
			q.settle(g, q.server.unavailable(backend.Refused, err))
			return
		}
	}
	if g.dropExpired(&store.dropped); g.first == nil {
		return
	}
	now := e.clock(store)
	var room [4]window.State
	for r := g.first; r != nil; r = r.next {
		r.decision, _ = e.states.Decide(&r.check, now, room[:0])
	}
	kept, expires := e.states.Drop(now)
	e.states, e.at, e.nonce = kept, now, rand.Uint64()
	var from int
	q.swaps.text, from = e.append(q.swaps.text[:0])
	if bytes.Equal(q.swaps.text[from:], e.before) {
		q.settle(g, nil)
		return
	}
	life := int64(-1) // expires at once
	if len(kept) > 0 {
		life = lifeUntil(now, expires)
	}
	g.nonce, q.swaps.sent = e.nonce, append(q.swaps.sent, g)
	c.store(g.first.name, expiry(life), q.swaps.text, found.unique)
}

// dropExpired removes the checks whose callers have left; an empty group is settled. The others are marked as written
// before the look at their callers, so that one who leaves later knows that its check may be counted.
func (g *group) dropExpired(dropped *atomic.Uint64) {
	now := time.Now()
	for at := &g.first; *at != nil; {
		r := *at
		if r.written.Store(true); r.call.expired(now) {
			*at = r.next
			dropped.Add(1)
		} else {
			at = &r.next
		}
	}
	g.settled = g.first == nil
}

// verify reads the values whose answers were lost, and answers the checks of those that hold the nonce: they were
// written. The others may still be written, so they are not sent again.
func (q *queue) verify(ctx context.Context, deadline time.Time) {
	var lost []*group
	for _, g := range q.swaps.sent {
		if !g.settled {
			lost = append(lost, g)
		}
	}
	if len(lost) == 0 || time.Until(deadline) <= 0 {
		return
	}
	c, err := q.server.dial(ctx, time.Until(deadline))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	defer c.closeAt(ctx)()
	_ = c.SetDeadline(deadline) // Flush returns what fails
	lines := ask(c, lost)
	if c.out.Flush() != nil {
		return
	}
	_ = read(c, lines, lost, func(g *group, v value) { // the others stay unknown
		if e := (entry{key: g.first.check.Key}); e.read(v.data) == nil && e.nonce == g.nonce {
			q.settle(g, nil)
		}
	})
}

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

// swaps are the checks of an exchange that are counted in values, by key: all checks of a key are decided on what is
// read of it, one after the other, and written together. It is reused.
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
	settled     bool   // its checks are answered, or asked again
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

// ask asks for the values of groups. It returns how many answers there will be.
func ask(c *conn, groups []*group) (lines int) {
	return c.gets(len(groups), func(i int) []byte { return groups[i].first.name })
}

// read reads the answers: those that are there, in the order in which they were asked for.
func read(c *conn, lines int, groups []*group, take func(*group, value)) error {
	i := 0
	for range lines {
		err := c.values(func(v value) error {
			for i < len(groups) {
				g := groups[i]
				if i++; bytes.Equal(g.first.name, v.name) {
					take(g, v) // which may answer its checks: they are not looked at again
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

// swap reads the values, decides on them, writes those that changed, and answers the checks of those that nobody else
// has changed meanwhile.
func (l *lane) swap(c *conn, lines int) error {
	groups := l.swaps.groups
	if err := read(c, lines, groups, func(g *group, v value) { l.decide(c, g, v) }); err != nil {
		return err
	}
	for _, g := range groups {
		if !g.decided {
			l.decide(c, g, value{})
		}
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	for _, g := range l.swaps.sent {
		word, err := c.word("STORED", "EXISTS", "NOT_FOUND", "NOT_STORED")
		why, err := refused(err)
		switch {
		case err != nil:
			return err
		case why != nil:
			l.settle(g, l.server.unavailable(backend.Refused, why))
		case word == "STORED":
			l.settle(g, nil)
		default:
			l.server.store.lostRaces.Add(1)
			g.settled = true
			for r := g.first; r != nil; r = r.next {
				r.raced.Store(true)
				r.written.Store(false)
				l.again = append(l.again, r)
			}
		}
	}
	return nil
}

// settle answers the checks of a group with their decisions, or with why they have none.
func (l *lane) settle(g *group, why *backend.Away) {
	g.settled = true
	for r := g.first; r != nil; {
		next := r.next // once it is answered, it is its caller's
		if why != nil {
			r.refuse(why)
		} else {
			r.answer(r.decision)
		}
		r = next
	}
}

// decide decides the checks of a key by its value, which is empty if there is none, and writes what it holds then, unless
// that is what it held before: a denial or a look changes nothing.
func (l *lane) decide(c *conn, g *group, found value) {
	store, h := l.server.store, held{key: g.first.check.Key}
	g.decided = true
	if found.name != nil {
		if err := h.read(found.data); err != nil {
			l.settle(g, l.server.unavailable(backend.Refused, err))
			return
		}
	}
	if g.keepWaiting(&store.dropped); g.first == nil {
		return
	}
	now := h.clock(store)
	var room [4]window.State
	for r := g.first; r != nil; r = r.next {
		r.decision, _ = h.states.Decide(&r.check, now, room[:0])
	}
	kept, expires := h.states.Drop(now)
	h.states, h.at, h.nonce = kept, now, rand.Uint64()
	var from int
	l.swaps.text, from = h.append(l.swaps.text[:0])
	if bytes.Equal(l.swaps.text[from:], h.was) {
		l.settle(g, nil)
		return
	}
	life := int64(-1) // it is gone at once
	if len(kept) > 0 {
		life = lifeUntil(now, expires)
	}
	g.nonce, l.swaps.sent = h.nonce, append(l.swaps.sent, g)
	c.store(g.first.name, expiry(life), l.swaps.text, found.unique)
}

// keepWaiting leaves out the checks whose callers have left. A group that has none left is settled. Those that are kept
// may be counted from now on: a caller who leaves after this has looked finds that out.
func (g *group) keepWaiting(dropped *atomic.Uint64) {
	now := time.Now()
	for at := &g.first; *at != nil; {
		r := *at
		if r.written.Store(true); r.call.gone(now) {
			*at = r.next
			dropped.Add(1)
		} else {
			at = &r.next
		}
	}
	g.settled = g.first == nil
}

// verify finds out which of the values whose answers were lost have been written: they have the nonce. Of the others it
// is unknown whether they will be, so that they are not written again.
func (l *lane) verify(ctx context.Context, deadline time.Time) {
	var lost []*group
	for _, g := range l.swaps.sent {
		if !g.settled {
			lost = append(lost, g)
		}
	}
	if len(lost) == 0 || time.Until(deadline) <= 0 {
		return
	}
	c, err := l.server.dial(ctx, time.Until(deadline))
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	defer c.closeAt(ctx)()
	_ = c.SetDeadline(deadline) // what fails, the flush tells
	lines := ask(c, lost)
	if c.out.Flush() != nil {
		return
	}
	_ = read(c, lines, lost, func(g *group, v value) { // what is missing stays unknown
		if h := (held{key: g.first.check.Key}); h.read(v.data) == nil && h.nonce == g.nonce {
			l.settle(g, nil)
		}
	})
}

package memcached

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/incr"
)

const (
	// maxBatch is how many checks an exchange holds at most.
	maxBatch = 64
	// maxQueue is how many checks wait at most.
	maxQueue = 64 * maxBatch
	// maxYields is how often a lane yields at most before it looks at what waits.
	maxYields = 4
	// maxTries is how often a check takes part in an exchange at most, if nothing is counted by it.
	maxTries = 32
	// minExchange is how long an exchange may take, however little time its callers have, and minConnect how long it may
	// take to connect: hasty callers shall not end what would serve others.
	minExchange, minConnect = 25 * time.Millisecond, 200 * time.Millisecond
	// trusted is how long an idle connection is trusted: a server that went away lets the next incr get lost.
	trusted = time.Second
)

// lane is a connection to a server, with what waits for it. Each key has its lane, so that exchanges of one process never
// race for it, and its checks stay in order.
type lane struct {
	server *server
	wake   chan struct{} // has a token while something waits

	mu      sync.Mutex
	waiting []*request
	conn    *conn         // nil if there is none
	took    time.Duration // by the last exchange
	closed  bool

	// Of one exchange:
	numbers []*request // those counted by incr
	read    int        // how many of them are answered, or in again
	swaps   swaps      // the rest, by key
	again   []*request // to be asked about again
}

// enqueue lets a request wait for its lane, or refuses it at once if it could not be answered in time.
func (r *request) enqueue() {
	if r.lane == nil {
		r.refuse(&backend.Away{Reason: backend.Down, Err: errors.Join(ErrUnavailable, errNoServers)})
		return
	}
	l := r.lane
	if away := cmp.Or(l.server.ended.Load(), l.server.away.Load()); away != nil {
		r.refuse(away)
		return
	}
	l.mu.Lock()
	drain := time.Duration(len(l.waiting)/maxBatch) * l.took
	full := l.closed || len(l.waiting) >= maxQueue || !r.call.began.Add(drain).Before(r.call.deadline)
	if !full {
		l.waiting = append(l.waiting, r)
	}
	l.mu.Unlock()
	if full {
		r.refuse(l.server.unavailable(backend.Busy, errBusy))
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run makes exchanges until ctx ends.
func (l *lane) run(ctx context.Context) {
	var open []*request
	for ctx.Err() == nil {
		if len(open) == 0 {
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
			l.yield()
		}
		if open = l.take(open); len(open) > 0 {
			open = l.exchange(ctx, open)
		}
	}
	l.mu.Lock()
	l.closed = true
	open = append(open, l.waiting...)
	l.waiting = nil
	l.mu.Unlock()
	for _, r := range open {
		r.refuse(l.server.ended.Load())
	}
	l.hangUp()
}

// yield lets callers that are about to come join the next exchange.
func (l *lane) yield() {
	before := -1
	for range maxYields {
		l.mu.Lock()
		waiting := len(l.waiting)
		l.mu.Unlock()
		if waiting <= before || waiting >= maxBatch {
			return
		}
		before = waiting
		runtime.Gosched()
	}
}

// take adds what waits to the open requests, which come first, and leaves out those whose callers have left.
func (l *lane) take(open []*request) []*request {
	l.mu.Lock()
	n := min(len(l.waiting), max(0, maxBatch-len(open)))
	open = append(open, l.waiting[:n]...)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	if l.waiting = l.waiting[:rest]; rest > 0 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	l.mu.Unlock()
	now, kept := time.Now(), open[:0]
	away := cmp.Or(l.server.ended.Load(), l.server.away.Load())
	for _, r := range open {
		switch {
		case r.call.gone(now):
			l.server.store.dropped.Add(1)
		case away != nil:
			r.refuse(away)
		case r.tries >= maxTries:
			r.refuse(l.server.unavailable(backend.Contended, errContended))
		default:
			kept = append(kept, r)
		}
	}
	clear(open[len(kept):])
	return kept
}

// exchange asks the server about the requests, and answers them. It returns those that have to be asked about again.
func (l *lane) exchange(ctx context.Context, open []*request) []*request {
	sent := time.Now()
	deadline := sent.Add(minExchange)
	l.again, l.numbers, l.read = l.again[:0], l.numbers[:0], 0
	l.swaps.reset()
	for _, r := range open {
		if r.tries++; r.call.deadline.After(deadline) {
			deadline = r.call.deadline
		}
		if r.plain {
			l.numbers = append(l.numbers, r)
		} else {
			l.swaps.add(r)
		}
	}
	s := l.server.store
	s.exchanges.Add(1)
	s.checks.Add(uint64(len(open)))
	c, err := l.connection(ctx, deadline)
	if err == nil {
		_ = c.SetDeadline(deadline) // what fails, the exchange tells
		err = l.talk(c)
	}
	now := time.Now()
	if err == nil {
		c.used = now
		l.server.answered(now)
	} else {
		l.hangUp()
		l.server.missed(sent, false, err)
		l.verify(ctx, deadline)
		l.fail(c == nil, err)
	}
	l.mu.Lock()
	l.took = now.Sub(sent)
	l.mu.Unlock()
	return append(open[:0], l.again...)
}

// talk writes all that can be asked at once, and reads the answers; then it writes values, and reads whether they are.
func (l *lane) talk(c *conn) error {
	writeNumbers(c, l.numbers)
	lines := ask(c, l.swaps.groups)
	if err := c.out.Flush(); err != nil {
		return err
	}
	for l.read < len(l.numbers) {
		r := l.numbers[l.read]
		answered, err := r.readNumber(c)
		if err != nil {
			return err
		}
		if l.read++; !answered {
			l.again = append(l.again, r)
		}
	}
	return l.swap(c, lines)
}

// fail ends the checks that an exchange has left without an answer. Those that are not counted are asked again, if the
// connection broke.
func (l *lane) fail(unreached bool, why error) {
	end := func(r *request) {
		switch {
		case r.number.step == stepBack: // it is counted, whatever becomes of the rest
			r.answer(incr.Decide(&r.check, r.number.after, r.number.rest))
		case r.written.Load():
			r.refuse(l.server.unavailable(backend.Late, why))
		case unreached:
			r.refuse(l.server.unavailable(backend.Down, why))
		case errors.Is(why, os.ErrDeadlineExceeded):
			r.refuse(l.server.unavailable(backend.Late, why))
		default:
			l.again = append(l.again, r)
		}
	}
	for _, r := range l.numbers[l.read:] {
		end(r)
	}
	for _, g := range l.swaps.groups {
		if g.settled {
			continue
		}
		for r := g.first; r != nil; {
			next := r.next
			end(r)
			r = next
		}
	}
}

// connection returns one that is known to live.
func (l *lane) connection(ctx context.Context, deadline time.Time) (*conn, error) {
	l.mu.Lock()
	c := l.conn
	l.mu.Unlock()
	if c != nil && time.Since(c.used) >= trusted {
		_ = c.SetDeadline(deadline)
		var refused refusal
		if err := c.alive(); err != nil && !errors.As(err, &refused) {
			l.hangUp()
			c = nil
		}
	}
	if c != nil {
		return c, nil
	}
	c, err := l.server.dial(ctx, max(minConnect, time.Until(deadline)))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	return c, nil
}

// hangUp closes the connection, if there is one.
func (l *lane) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close() // nothing in it is of use
		l.conn = nil
	}
}

// interrupt ends what the lane waits for.
func (l *lane) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetDeadline(time.Unix(1, 0))
	}
}

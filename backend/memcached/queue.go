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
	// maxYields is how often a queue yields at most before it takes what waits.
	maxYields = 4
	// maxTries is how often a check takes part in an exchange at most, if nothing is counted by it.
	maxTries = 32
	// minExchange and minConnect are how long an exchange and connecting may always take, however little time callers
	// have: else callers in a hurry would close connections that serve others.
	minExchange, minConnect = 25 * time.Millisecond, 200 * time.Millisecond
	// maxIdle is how long a connection may be idle before it is checked again: an incr that is sent on a dead one is
	// lost.
	maxIdle = time.Second
)

// queue is a connection to a server, with the requests that wait for it. All checks of a key go through one queue, so
// that exchanges of one process never race for the key, and its checks stay in order.
type queue struct {
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

// enqueue adds a request to its queue, or refuses it at once if it could not be answered in time.
func (r *request) enqueue() {
	if r.queue == nil {
		r.refuse(&backend.Away{Reason: backend.Down, Err: errors.Join(ErrUnavailable, errNoServers)})
		return
	}
	q := r.queue
	if away := cmp.Or(q.server.ended.Load(), q.server.away.Load()); away != nil {
		r.refuse(away)
		return
	}
	q.mu.Lock()
	drain := time.Duration(len(q.waiting)/maxBatch) * q.took
	full := q.closed || len(q.waiting) >= maxQueue || !r.call.began.Add(drain).Before(r.call.deadline)
	if !full {
		q.waiting = append(q.waiting, r)
	}
	q.mu.Unlock()
	if full {
		r.refuse(q.server.unavailable(backend.Busy, errBusy))
		return
	}
	signal(q.wake)
}

// run makes exchanges until ctx ends.
func (q *queue) run(ctx context.Context) {
	var open []*request
	for ctx.Err() == nil {
		if len(open) == 0 {
			select {
			case <-q.wake:
			case <-ctx.Done():
			}
			q.yield()
		}
		if open = q.take(open); len(open) > 0 {
			open = q.exchange(ctx, open)
		}
	}
	q.mu.Lock()
	q.closed = true
	open = append(open, q.waiting...)
	q.waiting = nil
	q.mu.Unlock()
	for _, r := range open {
		r.refuse(q.server.ended.Load())
	}
	q.disconnect()
}

// yield lets callers that are about to come join the next exchange.
func (q *queue) yield() {
	before := -1
	for range maxYields {
		q.mu.Lock()
		waiting := len(q.waiting)
		q.mu.Unlock()
		if waiting <= before || waiting >= maxBatch {
			return
		}
		before = waiting
		runtime.Gosched()
	}
}

// take adds what waits to the open requests, which come first, and leaves out those whose callers have left.
func (q *queue) take(open []*request) []*request {
	q.mu.Lock()
	n := min(len(q.waiting), max(0, maxBatch-len(open)))
	open = append(open, q.waiting[:n]...)
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	if q.waiting = q.waiting[:rest]; rest > 0 {
		signal(q.wake)
	}
	q.mu.Unlock()
	now, kept := time.Now(), open[:0]
	away := cmp.Or(q.server.ended.Load(), q.server.away.Load())
	for _, r := range open {
		switch {
		case r.call.expired(now):
			q.server.store.dropped.Add(1)
		case away != nil:
			r.refuse(away)
		case r.tries >= maxTries:
			r.refuse(q.server.unavailable(backend.Contended, errContended))
		default:
			kept = append(kept, r)
		}
	}
	clear(open[len(kept):])
	return kept
}

// exchange asks the server about the requests, and answers them. It returns those that have to be asked about again.
func (q *queue) exchange(ctx context.Context, open []*request) []*request {
	sent := time.Now()
	deadline := sent.Add(minExchange)
	q.again, q.numbers, q.read = q.again[:0], q.numbers[:0], 0
	q.swaps.reset()
	for _, r := range open {
		if r.tries++; r.call.deadline.After(deadline) {
			deadline = r.call.deadline
		}
		if r.plain {
			q.numbers = append(q.numbers, r)
		} else {
			q.swaps.add(r)
		}
	}
	s := q.server.store
	s.exchanges.Add(1)
	s.checks.Add(uint64(len(open)))
	c, err := q.connection(ctx, deadline)
	if err == nil {
		_ = c.SetDeadline(deadline) // the exchange returns what fails
		err = q.talk(c)
	}
	now := time.Now()
	if err == nil {
		c.used = now
		q.server.answered(now)
	} else {
		q.disconnect()
		q.server.missed(sent, false, err)
		q.verify(ctx, deadline)
		q.fail(c == nil, err)
	}
	q.mu.Lock()
	q.took = now.Sub(sent)
	q.mu.Unlock()
	return append(open[:0], q.again...)
}

// talk writes the numbers and reads of values at once, and reads the answers; then it writes values, and reads whether
// they are stored.
func (q *queue) talk(c *conn) error {
	writeNumbers(c, q.numbers)
	lines := ask(c, q.swaps.groups)
	if err := c.out.Flush(); err != nil {
		return err
	}
	for q.read < len(q.numbers) {
		r := q.numbers[q.read]
		answered, err := r.readNumber(c)
		if err != nil {
			return err
		}
		if q.read++; !answered {
			q.again = append(q.again, r)
		}
	}
	return q.swap(c, lines)
}

// fail ends the checks that an exchange has left without an answer. Those that are not counted are asked again, if the
// connection broke.
func (q *queue) fail(unreached bool, why error) {
	end := func(r *request) {
		switch {
		case r.number.step == stepBack: // it is counted, whatever becomes of the rest
			r.answer(incr.Decide(&r.check, r.number.after, r.number.rest))
		case r.written.Load():
			r.refuse(q.server.unavailable(backend.Late, why))
		case unreached:
			r.refuse(q.server.unavailable(backend.Down, why))
		case errors.Is(why, os.ErrDeadlineExceeded):
			r.refuse(q.server.unavailable(backend.Late, why))
		default:
			q.again = append(q.again, r)
		}
	}
	for _, r := range q.numbers[q.read:] {
		end(r)
	}
	for _, g := range q.swaps.groups {
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

// connection returns a connection that works: a new one, or one that was used within maxIdle or answers a ping.
func (q *queue) connection(ctx context.Context, deadline time.Time) (*conn, error) {
	q.mu.Lock()
	c := q.conn
	q.mu.Unlock()
	if c != nil && time.Since(c.used) >= maxIdle {
		_ = c.SetDeadline(deadline)
		var refused refusal
		if err := c.ping(); err != nil && !errors.As(err, &refused) {
			q.disconnect()
			c = nil
		}
	}
	if c != nil {
		return c, nil
	}
	c, err := q.server.dial(ctx, max(minConnect, time.Until(deadline)))
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.conn = c
	q.mu.Unlock()
	return c, nil
}

// disconnect closes the connection, if there is one.
func (q *queue) disconnect() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil {
		_ = q.conn.Close() // nothing more is read from it
		q.conn = nil
	}
}

// interrupt lets the exchange that is under way fail at once.
func (q *queue) interrupt() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil {
		_ = q.conn.SetDeadline(time.Unix(1, 0))
	}
}

// signal leaves a token in a channel of one, unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

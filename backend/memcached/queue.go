package memcached

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend"
)

const (
	// maxBatch is how many checks an exchange holds at most.
	maxBatch = backend.MaxChecks
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

	mu        sync.Mutex
	waiting   []*request
	roundTrip time.Duration // of the last exchange
	closed    bool

	// Of run alone:
	conn    *conn      // nil if there is none
	numbers []group    // what is asked now, one check each
	values  []group    // what is asked now, all checks of a key each
	again   []*request // what is to be asked about again
	text    []byte     // of a value
}

// group is what an exchange asks about a key.
type group struct {
	name     []byte
	requests []*request
	sent     bool // what may count was sent
	settled  bool // the checks are answered, or will be asked again: the exchange has none of this any more
}

// enqueue adds a request to its queue, or refuses it at once if it could not be answered in time.
func (r *request) enqueue() {
	if r.queue == nil {
		r.refuse(&backend.Away{Reason: backend.Down, Err: errors.Join(ErrUnavailable, errNoServers)})
		return
	}
	q := r.queue
	if away := q.server.away.Load(); away != nil {
		r.refuse(away)
		return
	}
	q.mu.Lock()
	drain := time.Duration(len(q.waiting)/maxBatch) * q.roundTrip
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

// run makes exchanges until the server is closed.
func (q *queue) run() {
	for life := q.server.life; life.Err() == nil; {
		if len(q.again) == 0 {
			select {
			case <-q.wake:
			case <-life.Done():
			}
			q.yield()
		}
		if open := q.take(); len(open) > 0 {
			q.exchange(open)
		}
	}
	q.mu.Lock()
	q.closed = true
	left := append(q.again, q.waiting...)
	q.mu.Unlock()
	for _, r := range left {
		r.refuse(q.server.away.Load())
	}
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

// take returns what is to be asked now: first what was asked before, then what waits. Requests whose callers have left
// are dropped.
func (q *queue) take() []*request {
	q.mu.Lock()
	n := min(len(q.waiting), maxBatch-len(q.again))
	open := append(q.again, q.waiting[:n]...)
	if q.waiting = slices.Delete(q.waiting, 0, n); len(q.waiting) > 0 {
		signal(q.wake)
	}
	q.mu.Unlock()
	q.again = open[:0]
	now, away := time.Now(), q.server.away.Load()
	return slices.DeleteFunc(open, func(r *request) bool {
		switch {
		case r.call.expired(now):
			q.server.store.dropped.Add(1)
		case away != nil:
			r.refuse(away)
		case r.tries >= maxTries:
			r.refuse(q.server.unavailable(backend.Late, errLate))
		default:
			return false
		}
		return true
	})
}

// exchange asks the server about the requests, and answers them or lets the next exchange ask again.
func (q *queue) exchange(open []*request) {
	began, s := time.Now(), q.server.store
	s.exchanges.Add(1)
	s.checks.Add(uint64(len(open)))
	deadline := began.Add(minExchange)
	q.numbers, q.values = q.numbers[:0], q.values[:0]
	for _, r := range open {
		if r.tries++; r.call.deadline.After(deadline) {
			deadline = r.call.deadline
		}
		q.join(r)
	}
	err := q.connect(deadline)
	reached := err == nil
	if reached {
		_ = q.conn.SetDeadline(deadline) // talk returns what fails
		err = q.talk()
	}
	now := time.Now()
	if err == nil {
		q.conn.used = now
		q.server.answered(now)
	} else {
		q.disconnect()
		q.server.missed(began, false, err)
		q.fail(reached, err)
	}
	q.mu.Lock()
	q.roundTrip = now.Sub(began)
	q.mu.Unlock()
}

// join adds a request to what is asked.
func (q *queue) join(r *request) {
	groups := &q.numbers
	if !r.plain {
		groups = &q.values
		for g := range unsettled(q.values) {
			if bytes.Equal(g.name, r.name) {
				g.requests = append(g.requests, r)
				return
			}
		}
	}
	n := len(*groups)
	*groups = slices.Grow(*groups, 1)[:n+1]
	g := &(*groups)[n]
	*g = group{name: r.name, requests: append(g.requests[:0], r)} // in the room of a former one
}

// unsettled lists the groups whose checks are not settled yet.
func unsettled(groups []group) iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range groups {
			if !groups[i].settled && !yield(&groups[i]) {
				return
			}
		}
	}
}

// settle answers the checks of a group with their decisions or, if why is not nil, with that error.
func (q *queue) settle(g *group, why *backend.Away) {
	g.settled = true
	for _, r := range g.requests {
		if why != nil {
			r.refuse(why)
		} else {
			r.answer(r.decision)
		}
	}
}

// settleRefused settles a group that the server has refused with an error. Other errors it returns.
func (q *queue) settleRefused(g *group, err error) error {
	if !isRefusal(err) {
		return err
	}
	q.settle(g, q.server.unavailable(backend.Refused, err))
	return nil
}

// repeat lets the next exchange ask about a group, of which nothing is counted.
func (q *queue) repeat(g *group) {
	g.settled = true
	q.again = append(q.again, g.requests...)
}

// talk writes the numbers and reads of values at once, and reads the answers; then it writes values, and reads whether
// they are stored.
func (q *queue) talk() error {
	for i := range q.numbers {
		q.writeNumber(&q.numbers[i])
	}
	asked := q.writeGets()
	if err := q.conn.out.Flush(); err != nil {
		return err
	}
	for i := range q.numbers {
		if err := q.settleRefused(&q.numbers[i], q.readNumber(&q.numbers[i])); err != nil {
			return err
		}
	}
	if asked {
		if err := q.readValues(); err != nil {
			return err
		}
	}
	if err := q.conn.out.Flush(); err != nil {
		return err
	}
	for g := range unsettled(q.values) {
		if err := q.settleRefused(g, q.readStored(g)); err != nil {
			return err
		}
	}
	return nil
}

// fail ends the checks that an exchange has left without an answer. Those that are not counted are asked again, if the
// connection broke.
func (q *queue) fail(reached bool, why error) {
	for _, groups := range [][]group{q.numbers, q.values} {
		for g := range unsettled(groups) {
			switch {
			case !g.sent && !reached:
				q.settle(g, q.server.unavailable(backend.Down, why))
			case g.sent, errors.Is(why, os.ErrDeadlineExceeded):
				q.settle(g, q.server.unavailable(backend.Late, why))
			default:
				q.repeat(g)
			}
		}
	}
}

// connect makes sure of a connection that works: one that was used within maxIdle or still answers, or a new one.
func (q *queue) connect(deadline time.Time) (err error) {
	if c := q.conn; c != nil && time.Since(c.used) >= maxIdle {
		_ = c.SetDeadline(deadline) // statistics returns what fails
		if _, err := c.statistics(); err != nil {
			q.disconnect()
		}
	}
	if q.conn != nil && q.conn.life.Err() != nil {
		q.disconnect()
	}
	if q.conn == nil {
		q.conn, err = q.server.dial(q.server.upContext(), max(minConnect, time.Until(deadline)))
	}
	return err
}

func (q *queue) disconnect() {
	if q.conn != nil {
		q.conn.close()
		q.conn = nil
	}
}

// signal leaves a token in a channel of one, unless it has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

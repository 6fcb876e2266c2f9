package memcached

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/ratelimit"
)

const (
	// maxTries is how often a check takes part in an exchange at most, if nothing is counted by it.
	maxTries = 32
	// minExchange and minConnect are how long an exchange and connecting may always take, however little time callers
	// have: else callers in a hurry would close connections that serve others.
	minExchange, minConnect = 25 * time.Millisecond, 200 * time.Millisecond
	// maxIdle is how long a connection may be idle before it is checked again: an incr that is sent on a dead one is
	// lost.
	maxIdle = time.Second
)

// request is a check under way.
type request = outbound.Request[check]

// check is the state of a request.
type check struct {
	backend.Check                  // with a copy of its limits, and without its key
	name          []byte           // of the key in memcached
	isNumber      bool             // the key is envoyproxy/ratelimit's
	window        ratelimit.Window // of a number
	missing       bool             // the last incr found no key, or the last add found one
	tries         int              // number of exchanges so far
	decision      backend.Decision
}

// exchange is the connection of a queue, and its present batch. All checks of a key go through one queue, so that
// exchanges of one process never race for the key, and its checks stay in order.
type exchange struct {
	server  *server
	conn    *conn // nil if there is none
	batch   *outbound.Batch[check]
	numbers []group // one check each
	values  []group // all checks of a key each
	text    []byte  // of a value
}

// group is the checks of a key in an exchange.
type group struct {
	name     []byte
	requests []*request
	written  bool // a counting command reached the socket
	done     bool // the checks are answered or requeued
}

// Exchange asks the server about a batch, and answers its requests or lets the next batch ask again.
func (srv *server) Exchange(b *outbound.Batch[check]) {
	x := b.Queue.PeerState.(*exchange)
	x.batch, x.numbers, x.values = b, x.numbers[:0], x.values[:0]
	end := srv.Trace(b.Requests)
	for _, r := range b.Requests {
		if r.State.tries++; r.State.tries > maxTries {
			r.Answer(srv.Unavailable(backend.Late, outbound.ErrLate))
		} else {
			x.join(r)
		}
	}
	err := x.connect(b.Deadline)
	reached := err == nil
	if reached {
		_ = x.conn.SetDeadline(b.Deadline) // talk returns what fails
		err = x.talk()
	}
	if err == nil {
		x.conn.used = time.Now()
	} else {
		x.disconnect()
	}
	srv.Note(outcomeOf(err), b.Sent, err)
	end(outcomeOf(err).String(), err)
	if err != nil {
		x.fail(reached, err)
	}
}

// join adds a request to what is asked.
func (x *exchange) join(r *request) {
	groups := &x.numbers
	if !r.State.isNumber {
		groups = &x.values
		for g := range unfinished(x.values) {
			if bytes.Equal(g.name, r.State.name) {
				g.requests = append(g.requests, r)
				return
			}
		}
	}
	n := len(*groups)
	*groups = slices.Grow(*groups, 1)[:n+1]
	g := &(*groups)[n]
	*g = group{name: r.State.name, requests: append(g.requests[:0], r)} // reuses the memory of an old group
}

// unfinished lists the groups whose checks are not settled yet.
func unfinished(groups []group) iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range groups {
			if !groups[i].done && !yield(&groups[i]) {
				return
			}
		}
	}
}

// finish answers the checks of a group with their decisions or, if why is not nil, with that error.
func (x *exchange) finish(g *group, why error) {
	g.done = true
	for _, r := range g.requests {
		r.Answer(why)
	}
}

// finishRefused settles a group that the server has refused with an error. Other errors it returns.
func (x *exchange) finishRefused(g *group, err error) error {
	if !isRefusal(err) {
		return err
	}
	x.finish(g, x.server.Unavailable(backend.Refused, err))
	return nil
}

// repeat requeues the checks of a group that were not counted.
func (x *exchange) repeat(g *group) {
	g.done = true
	for _, r := range g.requests {
		x.batch.Requeue(r)
	}
}

// talk writes the numbers and reads of values at once, and reads the answers; then it writes values, and reads whether
// they are stored.
func (x *exchange) talk() error {
	for i := range x.numbers {
		x.writeNumber(&x.numbers[i])
	}
	asked := x.writeGets()
	if err := x.conn.out.Flush(); err != nil {
		return err
	}
	for i := range x.numbers {
		if err := x.finishRefused(&x.numbers[i], x.readNumber(&x.numbers[i])); err != nil {
			return err
		}
	}
	if asked {
		if err := x.readValues(); err != nil {
			return err
		}
	}
	if err := x.conn.out.Flush(); err != nil {
		return err
	}
	for g := range unfinished(x.values) {
		if err := x.finishRefused(g, x.readStored(g)); err != nil {
			return err
		}
	}
	return nil
}

// fail ends the checks that an exchange has left without an answer. Those that are not counted are asked again, if the
// connection broke.
func (x *exchange) fail(reached bool, why error) {
	for _, groups := range [][]group{x.numbers, x.values} {
		for g := range unfinished(groups) {
			switch {
			case !g.written && !reached:
				x.finish(g, x.server.Unavailable(backend.Down, why))
			case g.written, errors.Is(why, os.ErrDeadlineExceeded):
				x.finish(g, x.server.Unavailable(backend.Late, why))
			default:
				x.repeat(g)
			}
		}
	}
}

// connect makes sure of a connection that works: one that was used within maxIdle or still answers, or a new one.
func (x *exchange) connect(deadline time.Time) (err error) {
	if c := x.conn; c != nil && time.Since(c.used) >= maxIdle {
		_ = c.SetDeadline(deadline) // statistics returns what fails
		if _, err := c.statistics(); err != nil {
			x.disconnect()
		}
	}
	if x.conn != nil && x.conn.life.Err() != nil {
		x.disconnect()
	}
	if x.conn == nil {
		x.conn, err = x.server.dial(x.batch.UntilAway, max(minConnect, time.Until(deadline)))
	}
	return err
}

func (x *exchange) disconnect() {
	if x.conn != nil {
		x.conn.close()
		x.conn = nil
	}
}

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
	// maxTries bounds the exchanges of a check that is not counted.
	maxTries = 32
	// minExchange and minConnect are the least timeouts of an exchange and of connecting. With the short deadlines of some
	// callers, connections that serve others too would be closed.
	minExchange, minConnect = 25 * time.Millisecond, 200 * time.Millisecond
	// maxIdle is how long a connection may be idle before it is checked again. An incr that is sent on a dead connection
	// is lost.
	maxIdle = time.Second
)

// request is the request of a check.
type request = outbound.Request[check]

// check is the state of a request.
type check struct {
	backend.Check                  // with a copy of its limits, and without its key
	name          []byte           // the key's name in memcached
	isNumber      bool             // the key is envoyproxy/ratelimit's: a number
	window        ratelimit.Window // for a number
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
	text    []byte  // buffer for a value
}

// group has the checks of one key in an exchange.
type group struct {
	name     []byte
	requests []*request
	written  bool // a counting command reached the socket
	done     bool // the checks are answered or requeued
}

// Exchange sends the requests of a batch to the server, and answers or requeues each.
func (srv *server) Exchange(b *outbound.Batch[check]) {
	x := b.Queue.PeerState.(*exchange)
	x.batch, x.numbers, x.values = b, x.numbers[:0], x.values[:0]
	end := srv.Trace(b.Requests)
	for _, r := range b.Requests {
		if r.State.tries++; r.State.tries > maxTries {
			r.Answer(srv.Unavailable(backend.Late, outbound.ErrLate))
		} else {
			x.addRequest(r)
		}
	}
	err := x.connect(b.Deadline)
	reached := err == nil
	if reached {
		_ = x.conn.SetDeadline(b.Deadline) // on an error talk fails
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

// addRequest adds a request to the exchange, in the group of its key.
func (x *exchange) addRequest(r *request) {
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

// unfinished yields the groups whose checks are neither answered nor requeued.
func unfinished(groups []group) iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for i := range groups {
			if !groups[i].done && !yield(&groups[i]) {
				return
			}
		}
	}
}

// finish answers the checks of a group with their decisions or, if err is not nil, with err.
func (x *exchange) finish(g *group, err error) {
	g.done = true
	for _, r := range g.requests {
		r.Answer(err)
	}
}

// finishRefused finishes a group with err if the server has refused its command. It returns other errors.
func (x *exchange) finishRefused(g *group, err error) error {
	if !isRefusal(err) {
		return err
	}
	x.finish(g, x.server.Unavailable(backend.Refused, err))
	return nil
}

// requeue requeues the checks of a group, which were not counted.
func (x *exchange) requeue(g *group) {
	g.done = true
	for _, r := range g.requests {
		x.batch.Requeue(r)
	}
}

// talk sends the commands for numbers and the gets of values together, and reads the replies. Then it sends the changed
// values, and reads whether they were stored.
func (x *exchange) talk() error {
	for i := range x.numbers {
		x.writeNumber(&x.numbers[i])
	}
	sentGets := x.writeGets()
	if err := x.conn.out.Flush(); err != nil {
		return err
	}
	for i := range x.numbers {
		if err := x.finishRefused(&x.numbers[i], x.readNumber(&x.numbers[i])); err != nil {
			return err
		}
	}
	if sentGets {
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

// fail finishes the checks that an exchange has left without an answer. If the connection broke, it requeues those that
// were not counted.
func (x *exchange) fail(reached bool, why error) {
	for _, groups := range [][]group{x.numbers, x.values} {
		for g := range unfinished(groups) {
			switch {
			case !g.written && !reached:
				x.finish(g, x.server.Unavailable(backend.Down, why))
			case g.written, errors.Is(why, os.ErrDeadlineExceeded):
				x.finish(g, x.server.Unavailable(backend.Late, why))
			default:
				x.requeue(g)
			}
		}
	}
}

// connect ensures a working connection: the present one if it was used within maxIdle or still answers, else a new one.
func (x *exchange) connect(deadline time.Time) (err error) {
	if c := x.conn; c != nil && time.Since(c.used) >= maxIdle {
		_ = c.SetDeadline(deadline) // on an error statistics fails
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

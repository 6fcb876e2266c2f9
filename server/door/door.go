// Package door guards a port: it bounds how many connections there are, and how much memory and time requests that are
// not answered may take. Connections that go beyond are closed, or wait; all others are served as before.
package door

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	budget = 48 << 20 // bytes that the unanswered requests of a port may hold together

	// initialAnswers is how many answers a new connection counts as having had: it gets its first ones under load, too.
	// Attackers who come back have them as well, so there are few.
	initialAnswers = 8

	// doublingArrivals is after how many new connections, twice, one that waits for its first answer costs double.
	doublingArrivals = 500

	smallRead = 256 // bytes read at a time from clients that may send faster than they are answered

	// A connection waits so long at a time, and so often, while others that were closed still hold the budget.
	roomWait, maxRoomWaits = 5 * time.Millisecond, 1000
)

// Reason is why a connection was closed, as metrics have it.
type Reason string

// The reasons.
const (
	Full       Reason = "max_connections"
	Memory     Reason = "memory"
	Unfinished Reason = "unfinished"
	Reset      Reason = "reset"
)

// closeCount counts the connections that were closed for a reason, and logs them.
type closeCount struct {
	message string
	count   atomic.Uint64
	logged  Sampled
}

// Door is a listener that guards its connections. Any number of goroutines may use it.
type Door struct {
	net.Listener
	Port   string // as metrics and the log name it
	limit  int    // of connections; 0: no bound
	log    *slog.Logger
	closed map[Reason]*closeCount

	arrivals   atomic.Uint64 // twice the connections so far: the clock by which a connection is idle
	held       atomic.Int64  // bytes that all connections hold
	unreleased atomic.Int64  // bytes of those that were closed, until their server has let go of them

	mu    sync.Mutex // protects what follows
	conns []*conn
}

// New guards a listener. It has at most limit connections at a time, 0 for any number.
func New(lis net.Listener, port string, limit int, log *slog.Logger) *Door {
	return &Door{Listener: lis, Port: port, limit: limit, log: log, closed: map[Reason]*closeCount{
		Full:       {message: "the port has all the connections it may have: each new one closes the one not served for longest"},
		Memory:     {message: "requests without an answer hold too much memory: connections that hold much are closed"},
		Unfinished: {message: "a request did not come whole within ten seconds: its connection is closed"},
		Reset:      {message: "requests are reset, over and over, before they are whole: their connection is closed"},
	}}
}

// Open returns how many connections there are.
func (d *Door) Open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns)
}

// Closed returns how many connections were closed for a reason.
func (d *Door) Closed(r Reason) uint64 { return d.closed[r].count.Load() }

// Accept returns the next connection. If there are too many, it closes the one that got no answer for the most
// arrivals.
func (d *Door) Accept() (net.Conn, error) {
	raw, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for d.limit > 0 && d.Open() >= d.limit { // nobody else adds any
		d.closeFirst(Full, 0, func(a, b *conn) int { return cmp.Compare(a.served.Load(), b.served.Load()) })
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &conn{Conn: raw, door: d, index: len(d.conns)}
	c.served.Store(d.arrivals.Add(2))
	c.answers.Store(initialAnswers)
	d.conns = append(d.conns, c)
	return c, nil
}

// freeMemory closes the connection with the highest cost of those that hold half their share or more: there is always
// one.
func (d *Door) freeMemory(share int64) {
	d.closeFirst(Memory, share/2, func(a, b *conn) int { return cmp.Compare(b.cost(), a.cost()) })
}

// closeFirst closes the first, by an order, of the connections that hold at least so many bytes. For memory it closes
// none if others have made room meanwhile: many call it at once, and would close all.
func (d *Door) closeFirst(reason Reason, least int64, order func(a, b *conn) int) {
	d.mu.Lock()
	var first *conn
	if reason != Memory || d.held.Load() > budget {
		for _, c := range d.conns {
			if c.held.Load() >= least && (first == nil || order(c, first) < 0) {
				first = c
			}
		}
	}
	removed := first != nil && d.removeLocked(first)
	d.mu.Unlock()
	if removed {
		d.closeRemoved(first, reason)
	}
}

// close closes a connection, unless it is closed already.
func (d *Door) close(c *conn, reason Reason) {
	if d.remove(c) {
		d.closeRemoved(c, reason)
	}
}

// closeRemoved closes a connection that was removed, counts it and logs it.
func (d *Door) closeRemoved(c *conn, reason Reason) {
	_ = c.Conn.Close() // its server notices at its next read
	closed := d.closed[reason]
	closed.count.Add(1)
	closed.logged.Log(d.log, slog.LevelWarn, closed.message, "port", d.Port, "client", c.RemoteAddr().String(),
		"max_connections", d.limit)
}

// remove removes a connection from the door's, and reports whether it was there.
func (d *Door) remove(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.removeLocked(c)
}

// removeLocked is remove for callers that hold mu.
func (d *Door) removeLocked(c *conn) bool {
	if c.index < 0 {
		return false
	}
	last := d.conns[len(d.conns)-1]
	d.conns[c.index], last.index = last, c.index
	d.conns, c.index = slices.Delete(d.conns, len(d.conns)-1, len(d.conns)), -1
	c.heldAtRemoval = c.held.Swap(removedMark)
	d.unreleased.Add(c.heldAtRemoval)
	d.held.Add(-c.heldAtRemoval)
	return true
}

// Sweep closes connections whose requests are not whole in time, and halves all counts of answers, each second until
// ctx ends.
func (d *Door) Sweep(ctx context.Context) {
	tick := time.Tick(time.Second)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			d.sweep()
		}
	}
}

func (d *Door) sweep() {
	d.mu.Lock()
	all := slices.Clone(d.conns)
	d.mu.Unlock()
	for _, c := range all {
		c.answers.Store(c.answers.Load() / 2)
		switch w := c.watched.Load(); {
		case w == nil:
		case w.resetsEarly():
			d.close(c, Reset)
		case w.overdue():
			d.close(c, Unfinished)
		}
	}
}

// State is an http.Server's ConnState: a connection that waits for its next request was served, and holds nothing.
func (d *Door) State(raw net.Conn, s http.ConnState) {
	if c, ours := raw.(*conn); ours && s == http.StateIdle {
		c.hold(-max(0, c.held.Load()))
		c.noteAnswer()
	}
}

// removedMark stands for the bytes of a connection that was removed, far below all that it could still add.
const removedMark = math.MinInt64 / 2

// conn is a connection of a door.
type conn struct {
	net.Conn
	door    *Door
	served  atomic.Uint64         // door.arrivals when it came, an even number; when it was last answered, one more than that was
	answers atomic.Uint64         // of late: each sweep halves them
	held    atomic.Int64          // bytes
	watched atomic.Pointer[watch] // nil unless it speaks HTTP/2

	ahead bool // the last read filled its buffer, so the client has sent more; used by the reader alone

	index         int   // its place in door.conns, -1 once removed; door.mu protects it
	heldAtRemoval int64 // what it held when it was removed
	closeOnce     sync.Once
}

// Read counts what comes, twice as its reader has buffers that grow. HTTP/2 is counted by its frames.
func (c *conn) Read(b []byte) (int, error) {
	if c.watched.Load() != nil {
		return c.Conn.Read(b)
	}
	n, err := c.yieldAndRead(c.Conn, b[:min(len(b), smallRead)])
	if !c.hold(2 * int64(n)) {
		return 0, net.ErrClosed
	}
	return n, err
}

// yieldAndRead reads, after other goroutines if the last read filled its buffer: else a client that always sends more
// would take the processor for ten milliseconds at a time, and a hundred such clients for a second.
func (c *conn) yieldAndRead(from net.Conn, b []byte) (int, error) {
	if c.ahead {
		runtime.Gosched()
	}
	n, err := from.Read(b)
	c.ahead = n == len(b)
	return n, err
}

func (c *conn) Close() error {
	c.door.remove(c)
	c.closeOnce.Do(func() { c.door.unreleased.Add(-c.heldAtRemoval) })
	return c.Conn.Close()
}

func (c *conn) noteAnswer() {
	c.answers.Add(1)
	c.served.Store(c.door.arrivals.Load() + 1) // odd, and later than the newest arrival
}

// cost returns the bytes that the connection holds for each answer of late; before its first answer, more with each
// later connection. Attackers who come back are always new and never served.
func (c *conn) cost() float64 {
	cost := float64(c.held.Load()) / float64(1+c.answers.Load())
	if arrival := c.served.Load(); arrival%2 == 0 {
		cost *= 1 + float64(c.door.arrivals.Load()-arrival)/doublingArrivals
	}
	return cost
}

// hold adds to the bytes that the connection holds, and reports whether it may go on. Once the budget is used up,
// others are closed, and a connection that holds its share or more waits for room before its server sees what came.
func (c *conn) hold(change int64) bool {
	d := c.door
	if change != 0 && c.held.Add(change) >= 0 {
		d.held.Add(change)
	}
	full := func() bool { return d.held.Load()+d.unreleased.Load() > budget }
	for waits := 0; waits < maxRoomWaits && change > 0 && full() && c.held.Load() >= 0; {
		share := budget / int64(max(1, d.Open()))
		switch {
		case d.held.Load() > budget:
			d.freeMemory(share)
		case c.held.Load() > max(share, 2*perStream, perWhole/4*int64(c.answers.Load())): // a call in pieces may, and the busy
			time.Sleep(roomWait)
			waits++
		default:
			return true
		}
	}
	return c.held.Load() >= 0
}

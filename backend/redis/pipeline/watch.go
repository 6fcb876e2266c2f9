package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// pingPause is the least pause between PINGs; the longest is half as much again, so that replicas spread theirs.
	pingPause = 100 * time.Millisecond
	// pingTimeout is how long PONG is waited for: if that were long, a lost PING would hide that the server is back.
	pingTimeout = 250 * time.Millisecond
	// dialTimeout is how long connecting for a PING may take: TLS takes round trips.
	dialTimeout = 2 * pingTimeout
)

// watch is the state of a queue's server: the breaker and its PINGs. The queue's mu guards all but the atomics.
type watch struct {
	breaker  breaker
	calm     atomic.Bool                  // breaker.calm
	suspect  atomic.Bool                  // the last exchange was lost, and the breaker is still closed
	away     atomic.Pointer[backend.Away] // the answer to all callers while the breaker is open, else nil
	trial    *Batch                       // the one that is out while the breaker is half open
	pinging  bool                         // a goroutine sends PING
	lastPing time.Time                    // when the last one was sent

	overdue   *time.Timer // runs checkOverdue when callers leave without an answer
	overdueAt time.Time   // when it fires; zero: not at all

	life           context.Context // until the queue is closed
	end            context.CancelFunc
	connect        context.Context // until the server is found to be away: then nobody waits for a connection
	stopConnecting context.CancelFunc
}

// noteExchange tells the breaker the outcome of an exchange, and its error. It is cheap while nothing is wrong.
func (q *queue) noteExchange(o outcome, sent time.Time, err error) {
	if o == outcomeAnswered && q.calm.Load() {
		return
	}
	now := time.Now()
	q.update(now, err, func() {
		q.breaker.exchanged(o, sent, now)
		if o == outcomeLost && q.breaker.state == stateClosed && now.Sub(q.lastPing) >= pingPause {
			q.startPings(0)
		}
	})
}

// watchDeadline has checkOverdue run at a caller's deadline, unless it runs earlier. The caller holds mu.
func (q *queue) watchDeadline(deadline, now time.Time) {
	if q.overdueAt.IsZero() || deadline.Before(q.overdueAt) {
		q.overdueAt = deadline
		q.overdue.Reset(deadline.Sub(now))
	}
}

// checkOverdue tells the breaker of exchanges that all callers have left: one that waits for a connection to a frozen
// server lasts as long as the store's timeout. A caller that leaves while the queue has no room is a lost exchange, too.
// The trial of a half-open breaker has time for a connection first, as PING has. No PING follows: it would wait as well.
func (q *queue) checkOverdue() {
	now := time.Now()
	q.update(now, errLate, func() {
		q.overdueAt = time.Time{}
		check := func(deadline, since time.Time) {
			lost := deadline
			if q.breaker.state == stateHalfOpen {
				lost = deadline.Add(dialTimeout)
			}
			if lost.After(now) {
				q.watchDeadline(lost, now)
			} else {
				q.breaker.exchanged(outcomeLost, since, lost) // the next one may have left since
			}
		}
		for _, b := range q.out {
			check(b.deadline, b.sent)
		}
		for i := 0; i < len(q.waiting) && len(q.out) == q.maxOut && q.breaker.state == stateClosed; i++ {
			check(q.waiting[i].call.deadline, q.waiting[i].joined)
		}
	})
}

// update changes the breaker, and does what follows; err is why the server may be away.
func (q *queue) update(now time.Time, err error, change func()) {
	var waiting []*group
	q.mu.Lock()
	before := q.breaker.state
	change()
	after := q.breaker.state
	q.suspect.Store(after == stateClosed && q.breaker.lostInRow > 0)
	q.calm.Store(q.breaker.calm() && !q.pinging) // an answer outweighs a PING that is on its way
	switch {
	case after == before:
	case after == stateOpen:
		waiting = q.opened(before, now, err)
	default:
		q.away.Store(nil)
		q.schedule(now)
	}
	away := q.awayError()
	q.mu.Unlock()
	refuseAll(waiting, away)
}

// opened ends all waiting for the server. It returns what waited in the queue.
func (q *queue) opened(before breakerState, now time.Time, err error) []*group {
	away := &backend.Away{Reason: backend.Down, Err: fmt.Errorf("%w: %s is away: %w", ErrUnavailable, q.name, err)}
	q.away.Store(away)
	q.trial = nil
	q.stopConnecting()
	q.connect, q.stopConnecting = context.WithCancel(q.life)
	pause := nextPingPause()
	if before == stateClosed {
		pause = 0
		q.pipeline.servers.AddLoss()
	}
	q.startPings(pause)
	q.pipeline.report(false)
	return q.takeWaiting()
}

// startPings begins to send PINGs, the first after a pause, until the server is not away. The caller holds mu.
func (q *queue) startPings(pause time.Duration) {
	if q.pinging || q.closed {
		return
	}
	q.pinging = true
	q.pipeline.running.Go(func() {
		p := pinger{server: q.client}
		defer p.close()
		for more := true; more; pause = nextPingPause() {
			select {
			case <-time.After(pause):
			case <-q.life.Done():
				return
			}
			more = q.ping(&p)
		}
	})
}

func nextPingPause() time.Duration { return pingPause + rand.N(pingPause/2) }

// ping sends one PING. It reports whether another follows.
func (q *queue) ping(p *pinger) (more bool) {
	sent := time.Now()
	q.mu.Lock()
	q.lastPing = sent
	q.mu.Unlock()
	err := p.ping(q.life)
	if q.life.Err() != nil {
		return false
	}
	now := time.Now()
	q.update(now, err, func() {
		q.breaker.pinged(err, sent, now)
		q.pinging = q.breaker.state == stateOpen
		more = q.pinging
	})
	if more {
		q.pipeline.servers.Reload()
		if topology.Left(q.client) {
			q.pipeline.retire(now)
		}
	}
	return more
}

// disconnect closes the connections that lead to a replica, where new ones may lead to the primary.
func (q *queue) disconnect() {
	ctx, cancel := context.WithTimeout(q.life, pingTimeout)
	defer cancel()
	topology.Disconnect(ctx, q.client)
}

// awayError is what a server that is away answers to all, nil while it is not.
func (q *queue) awayError() error {
	if away := q.away.Load(); away != nil {
		return away
	}
	return nil
}

// pinger sends PING on a connection of its own, which is made anew after a loss. It is for one goroutine.
type pinger struct {
	server *goredis.Client
	client *goredis.Client // nil without a connection
}

// ping sends PING, on a new connection if there is none. Its error means no connection, no PONG in time, or a server
// that is not ready to count; any other reply is as good as PONG.
func (p *pinger) ping(ctx context.Context) error {
	if p.client == nil {
		p.client = topology.NewPingClient(p.server, dialTimeout)
		if err := p.send(ctx, dialTimeout); err != nil {
			return err
		}
	}
	return p.send(ctx, pingTimeout)
}

func (p *pinger) send(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client := p.client
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // which ends what go-redis reads
	err := client.Ping(ctx).Err()
	switch outcomeOf(err, true) {
	case outcomeAnswered:
		return nil
	case outcomeLoading:
	default:
		p.close()
	}
	return err
}

func (p *pinger) close() {
	if p.client != nil {
		_ = p.client.Close() // it was for this only
		p.client = nil
	}
}

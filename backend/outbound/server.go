package outbound

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend"
)

const (
	// PingPause is the shortest pause between PINGs; up to half of it is added at random, so that replicas spread theirs.
	PingPause = 100 * time.Millisecond
	// PingTimeout is the timeout of a PING. It is short, because no other PING is sent before a lost one times out.
	PingTimeout = 250 * time.Millisecond
	// DialTimeout is the timeout of connecting for a PING: TLS takes more round trips.
	DialTimeout = 2 * PingTimeout
	// idleTime is how long a server must be unused before Retire closes it.
	idleTime = time.Minute
)

// Peer talks to one server.
type Peer[S any] interface {
	// Exchange sends the requests of a batch, and answers or requeues each. It calls Note with the outcome. It is called
	// by as many goroutines as batches may be in flight.
	Exchange(b *Batch[S])
	// Pings opens a connection for a series of PINGs, which end closes. ping finds out whether the server can count. Only
	// one series at a time sends PINGs, but end of the previous series may still run.
	Pings() (ping func(context.Context) (Outcome, error), end func())
	// Changed is called after each change of the state, or of the reason why the server is away, in order. It must not
	// block.
	Changed(before, after State, why error)
}

// Server is one server, with its breaker and queues. Its methods may be called by any number of goroutines.
type Server[S any] struct {
	Name   string
	Queues []*Queue[S] // fixed

	engine           *Engine[S]
	peer             Peer[S]
	healthy          atomic.Bool                              // breaker.healthy, and no PING is in flight
	lastExchangeLost atomic.Bool                              // while the breaker is still closed
	away             atomic.Pointer[backend.UnavailableError] // the answer to all callers while the breaker is open, else nil

	mu            sync.Mutex
	breaker       breaker
	halfOpenBatch *Batch[S] // the batch in flight while the breaker is half open
	closed        bool
	lastUsed      time.Time   // when a call last enqueued requests
	pinging       bool        // a goroutine sends PINGs
	lastPing      time.Time   // when the last PING was sent
	pingTimer     *time.Timer // for the next PING of a healthy server
	overdueTimer  *time.Timer // runs checkOverdue when callers leave without an answer
	overdueAt     time.Time   // when it fires; zero for never

	ctx             context.Context // ends when the server is closed
	cancel          context.CancelFunc
	untilAway       context.Context // ends when the breaker opens
	cancelUntilAway context.CancelFunc
}

// Open makes a server with this number of queues, each with at most maxInFlight batches in flight.
func (e *Engine[S]) Open(name string, peer Peer[S], queues, maxInFlight int) *Server[S] {
	s := &Server[S]{Name: name, engine: e, peer: peer, lastUsed: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.untilAway, s.cancelUntilAway = context.WithCancel(s.ctx)
	s.healthy.Store(true)
	for range queues {
		s.Queues = append(s.Queues, newQueue(s, maxInFlight))
	}
	s.overdueTimer = time.AfterFunc(time.Hour, s.checkOverdue)
	s.overdueTimer.Stop()
	return s
}

// Ping starts to send PINGs, until one is answered.
func (s *Server[S]) Ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startPings(0)
	s.healthy.Store(false) // an answer counts more than a PING in flight
}

// Context returns a context that ends when the server is closed.
func (s *Server[S]) Context() context.Context { return s.ctx }

// Unavailable returns the error of a check that got no answer.
func (s *Server[S]) Unavailable(r backend.Reason, why error) error {
	return &backend.UnavailableError{Reason: r, Err: fmt.Errorf("%w: %s: %w", s.engine.config.ErrUnavailable, s.Name, why)}
}

// Away returns the error of all checks while the server is away, else nil.
func (s *Server[S]) Away() error {
	if away := s.away.Load(); away != nil {
		return away
	}
	return nil
}

// Load returns the number of batches in flight and of waiting checks, and whether the breaker is open.
func (s *Server[S]) Load() (inFlight, waiting int, away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.Queues {
		inFlight, waiting = inFlight+len(q.inFlight), waiting+q.checks
	}
	return inFlight, waiting, s.breaker.state == Open
}

// Trace starts to trace an exchange of requests, none of which is answered yet. end gets the outcome that Note gets.
func (s *Server[S]) Trace(requests []*Request[S]) (end func(outcome string, err error)) {
	if s.engine.config.Trace != nil {
		end = s.engine.config.Trace(s.Name, func(yield func(context.Context) bool) {
			for _, r := range requests {
				if r.caller != nil && !yield(r.caller.context) {
					return
				}
			}
		})
	}
	if end == nil {
		end = untraced
	}
	return end
}

func untraced(string, error) {}

// Note tells the breaker the outcome of an exchange, and its error. It is cheap while the server is healthy.
func (s *Server[S]) Note(o Outcome, sent time.Time, err error) {
	if o == Answered && s.healthy.Load() {
		return
	}
	now := time.Now()
	s.update(now, o, err, func() {
		s.breaker.onExchange(o, sent, now)
		if o == Lost && s.breaker.state == Closed && now.Sub(s.lastPing) >= PingPause {
			s.startPings(0)
		}
	})
}

// scheduleOverdueCheck schedules checkOverdue for a caller's deadline, unless it runs earlier. The caller holds mu.
func (s *Server[S]) scheduleOverdueCheck(deadline, now time.Time) {
	if s.overdueAt.IsZero() || deadline.Before(s.overdueAt) {
		s.overdueAt = deadline
		s.overdueTimer.Reset(deadline.Sub(now))
	}
}

// checkOverdue tells the breaker that an exchange is lost once all its callers have left: the exchange itself ends later,
// because waiting for a connection to a frozen server takes up to the store's timeout. A caller that leaves a queue from
// which nothing can be sent counts as a lost exchange, too. The batch of a half-open breaker gets DialTimeout more, as a
// PING does. checkOverdue sends no PING, which would block too.
func (s *Server[S]) checkOverdue() {
	now := time.Now()
	s.update(now, Lost, ErrLate, func() {
		s.overdueAt = time.Time{}
		check := func(deadline, since time.Time) {
			lostAt := deadline
			if s.breaker.state == HalfOpen {
				lostAt = deadline.Add(DialTimeout)
			}
			if lostAt.After(now) {
				s.scheduleOverdueCheck(lostAt, now)
			} else {
				s.breaker.onExchange(Lost, since, lostAt) // the next one may have been sent since
			}
		}
		for _, q := range s.Queues {
			for _, b := range q.inFlight {
				check(b.Deadline, b.Sent)
			}
			for i := 0; i < len(q.waiting) && len(q.inFlight) == q.maxInFlight && s.breaker.state == Closed; i++ {
				check(q.waiting[i].caller.deadline, q.waiting[i].enqueuedAt)
			}
		}
	})
}

// update calls change, which may change the breaker's state, and acts on the new state. If the breaker opens, o and err
// are the reason.
func (s *Server[S]) update(now time.Time, o Outcome, err error, change func()) {
	var waiting []*Request[S]
	s.mu.Lock()
	before := s.breaker.state
	change()
	after := s.breaker.state
	s.lastExchangeLost.Store(after == Closed && s.breaker.lostInRow > 0)
	s.healthy.Store(s.breaker.healthy() && !s.pinging) // an answer counts more than a PING in flight
	switch {
	case after == before:
	case after == Open:
		waiting = s.onOpen(before, o, err)
	default:
		s.away.Store(nil)
		s.reportChange(before, after, nil)
		s.schedule(now)
	}
	away := s.Away()
	s.mu.Unlock()
	answerAll(waiting, away)
}

// onOpen acts on the opening of the breaker: it cancels batches in flight, starts PINGs, and returns the queued requests.
func (s *Server[S]) onOpen(before State, o Outcome, err error) []*Request[S] {
	s.setAway(before, o, err)
	s.halfOpenBatch = nil
	s.cancelUntilAway()
	s.untilAway, s.cancelUntilAway = context.WithCancel(s.ctx)
	pause := nextPingPause()
	if before == Closed {
		pause = 0
	}
	s.startPings(pause)
	return s.takeWaiting()
}

// setAway sets the error of all checks while the server is away.
func (s *Server[S]) setAway(before State, o Outcome, err error) {
	reason, known := backend.Down, s.away.Load()
	if o == Refused {
		reason = backend.Refused
	}
	away := &backend.UnavailableError{Reason: reason, Err: fmt.Errorf("%w: %s is away: %w", s.engine.config.ErrUnavailable, s.Name, err)}
	s.away.Store(away)
	if known == nil || known.Reason != reason {
		s.reportChange(before, Open, err)
	}
}

// reportChange notifies the peer and all subscribers of a change of the state.
func (s *Server[S]) reportChange(before, after State, why error) {
	s.peer.Changed(before, after, why)
	s.engine.Broadcast()
}

func (s *Server[S]) schedule(now time.Time) {
	for _, q := range s.Queues {
		q.schedule(now)
	}
}

func (s *Server[S]) takeWaiting() (waiting []*Request[S]) {
	for _, q := range s.Queues {
		waiting = append(waiting, q.takeWaiting()...)
	}
	return waiting
}

// startPings starts to send PINGs, the first after a pause, until the server is healthy. The caller holds mu.
func (s *Server[S]) startPings(pause time.Duration) {
	if s.pinging || s.closed {
		return
	}
	s.pinging = true
	s.engine.running.Go(func() {
		ping, end := s.peer.Pings()
		defer end()
		for more := true; more; pause = nextPingPause() {
			select {
			case <-time.After(pause):
			case <-s.ctx.Done():
				return
			}
			more = s.ping(ping)
		}
	})
}

func nextPingPause() time.Duration { return PingPause + rand.N(PingPause/2) }

// ping sends one PING. It reports whether another follows.
func (s *Server[S]) ping(ping func(context.Context) (Outcome, error)) (more bool) {
	sent := time.Now()
	s.mu.Lock()
	s.lastPing = sent
	s.mu.Unlock()
	o, err := ping(s.ctx)
	if s.ctx.Err() != nil {
		return false
	}
	now := time.Now()
	s.update(now, o, err, func() {
		if s.breaker.onPing(o, sent, now); s.away.Load() != nil && o != Answered {
			s.setAway(Open, o, err) // the reason may have changed
		}
		more = s.breaker.state == Open || o != Answered && s.breaker.lostInRow > 0
		if s.pinging = more; !more && s.engine.config.PingEvery > 0 && !s.closed {
			s.pingTimer = time.AfterFunc(s.engine.config.PingEvery, s.Ping)
		}
	})
	return more
}

// Close refuses the waiting requests with an error. Batches in flight may still be answered.
func (s *Server[S]) Close(why error) {
	s.mu.Lock()
	waiting := s.takeWaiting()
	s.stop()
	s.mu.Unlock()
	answerAll(waiting, why)
}

func (s *Server[S]) stop() {
	s.closed = true
	for _, q := range s.Queues {
		q.wake()
		q.timer.Stop()
	}
	if s.pingTimer != nil {
		s.pingTimer.Stop()
	}
	s.overdueTimer.Stop()
	s.cancel()
}

// Retire closes a server that was idle for idleTime, and reports whether it did. It closes one whose breaker is open
// only if gone returns true.
func (s *Server[S]) Retire(now time.Time, gone func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unused := now.Sub(s.lastUsed) >= idleTime
	for _, q := range s.Queues {
		unused = unused && len(q.inFlight) == 0 && q.checks == 0
	}
	if unused && s.breaker.state == Open {
		unused = gone()
	}
	if unused {
		s.stop()
	}
	return unused
}

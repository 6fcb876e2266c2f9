package outbound

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
)

const (
	// maxBatch is the most checks in a batch: a script call for them blocks the server.
	maxBatch = backend.MaxChecks
	// maxQueue is the most checks that wait: those of 64 ms at full pace.
	maxQueue = 64 * maxBatch
	// maxYields is how often a worker yields at most before it takes a batch.
	maxYields = 4
)

// Batch has the requests that a worker has in flight. Workers reuse it.
type Batch[S any] struct {
	Queue     *Queue[S]
	Requests  []*Request[S]
	Sent      time.Time
	Deadline  time.Time       // when the last caller leaves
	Joined    []time.Time     // when each call whose requests are new in this batch was enqueued
	UntilAway context.Context // ends when the breaker opens, because no caller waits for the server then
	PeerState any             // for the peer; it stays when the batch is reused
}

// Requeue puts a request that the server has not executed at the head of the queue.
func (b *Batch[S]) Requeue(r *Request[S]) {
	q, s := b.Queue, b.Queue.Server
	s.mu.Lock()
	away := s.Away()
	if away == nil && s.closed {
		away = s.Unavailable(backend.Down, backend.ErrClosed)
	}
	if away == nil {
		q.requeued = append(q.requeued, r)
		q.checks++
	}
	s.mu.Unlock()
	if away != nil {
		r.Answer(away)
	}
}

// Queue is a FIFO queue to a server: checks that arrive while a batch is in flight are sent together in the next one.
// Workers send batches and end when none may be sent, except one, which idles and keeps its stack. The server's mu
// guards all fields.
type Queue[S any] struct {
	Server    *Server[S]
	PeerState any // for the peer

	maxInFlight int // most batches in flight
	requeued    []*Request[S]
	waiting     []*group[S]
	checks      int           // in requeued and waiting
	inFlight    []*Batch[S]   // oldest first
	lastSent    time.Time     // when the last batch was sent
	roundTrip   time.Duration // of the last batch that returned
	waking      bool          // a worker was started or woken, and has not called next yet
	idle        bool          // a worker waits to be woken
	woken       chan struct{} // has a token once the idle worker is woken
	timer       *time.Timer   // schedules a batch when the pace allows it
	timerSet    bool
}

func newQueue[S any](s *Server[S], maxInFlight int) *Queue[S] {
	q := &Queue[S]{Server: s, maxInFlight: maxInFlight, woken: make(chan struct{}, 1)}
	q.timer = time.AfterFunc(time.Hour, q.fire)
	q.timer.Stop()
	return q
}

// enqueue adds a group. It returns false if the server is closed. It refuses the group if the queue is full, if the
// group could not be sent before the caller's deadline, or while the server is away.
func (q *Queue[S]) enqueue(g *group[S], now time.Time) bool {
	s := q.Server
	deadline := g.caller.deadline
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.lastUsed = now
	if away := s.away.Load(); away != nil {
		s.mu.Unlock()
		g.refuse(away)
		return true
	}
	g.enqueuedAt = now
	// About how long it takes to send the waiting checks.
	drain := time.Duration(q.checks/maxBatch) * max(s.engine.config.Pace, q.roundTrip/time.Duration(q.maxInFlight))
	full := q.checks+len(g.requests) > maxQueue || !now.Add(drain).Before(deadline)
	if !full {
		q.waiting = append(q.waiting, g)
		q.checks += len(g.requests)
		q.schedule(now)
		s.scheduleOverdueCheck(deadline, now)
	}
	s.mu.Unlock()
	if full {
		g.refuse(s.Unavailable(backend.Busy, errBusy))
	}
	return true
}

// schedule wakes a worker if a batch may be sent now, or sets the timer for when it may.
func (q *Queue[S]) schedule(now time.Time) {
	switch {
	case q.waking || q.checks == 0 || !q.hasRoom():
	case q.maySend(now):
		q.waking = true
		if !q.wake() {
			q.Server.engine.running.Add(1)
			go q.work()
		}
	case !q.timerSet:
		q.timerSet = true
		q.timer.Reset(q.lastSent.Add(q.Server.engine.config.Pace).Sub(now))
	}
}

func (q *Queue[S]) maySend(now time.Time) bool {
	return q.hasRoom() && (q.Server.breaker.state == HalfOpen || len(q.inFlight) == 0 ||
		now.Sub(q.lastSent) >= q.Server.engine.config.Pace)
}

// hasRoom reports whether one more batch may be in flight, whatever the pace.
func (q *Queue[S]) hasRoom() bool {
	switch q.Server.breaker.state {
	case Closed:
		return len(q.inFlight) < q.maxInFlight
	case HalfOpen: // old batches may still wait for a connection; with maxInFlight 1 the old batch holds the only one
		return q.Server.halfOpenBatch == nil && (q.maxInFlight > 1 || len(q.inFlight) == 0)
	}
	return false
}

func (q *Queue[S]) fire() {
	q.Server.mu.Lock()
	defer q.Server.mu.Unlock()
	q.timerSet = false
	q.schedule(time.Now())
}

// work sends batches while any may be sent, and each time that it is woken.
func (q *Queue[S]) work() {
	e := q.Server.engine
	defer e.running.Done()
	b := e.batches.Get().(*Batch[S])
	for again := true; again; again = q.sleep() {
		q.yield()
		for q.next(b) {
			e.Batches.Add(1)
			e.Checks.Add(uint64(len(b.Requests)))
			q.Server.peer.Exchange(b)
			q.yield()
		}
	}
	e.batches.Put(b)
}

// yield lets other goroutines run as long as the queue grows, so that more requests get into the next batch and callers
// return their answers.
func (q *Queue[S]) yield() {
	before := -1
	for range maxYields {
		q.Server.mu.Lock()
		checks := q.checks
		q.Server.mu.Unlock()
		if checks <= before || checks >= maxBatch {
			return
		}
		before = checks
		runtime.Gosched()
	}
}

// sleep waits until the worker is woken. It returns false at once if another worker is idle, or the server is closed.
func (q *Queue[S]) sleep() bool {
	q.Server.mu.Lock()
	sleeps := !q.idle && !q.Server.closed
	if sleeps {
		q.idle = true
	}
	q.Server.mu.Unlock()
	if sleeps {
		<-q.woken
	}
	return sleeps
}

// wake wakes the worker that is idle. It returns false if none is.
func (q *Queue[S]) wake() bool {
	woken := q.idle
	if woken {
		q.idle = false
		q.woken <- struct{}{}
	}
	return woken
}

// next removes b from the batches in flight. If another batch may be sent, it fills b again and returns true.
func (q *Queue[S]) next(b *Batch[S]) bool {
	now, s := time.Now(), q.Server
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Queue == nil {
		b.Queue, q.waking = q, false
	} else {
		q.inFlight = slices.DeleteFunc(q.inFlight, func(out *Batch[S]) bool { return out == b })
		q.roundTrip = now.Sub(b.Sent)
		if s.halfOpenBatch == b {
			s.halfOpenBatch = nil
			defer s.schedule(now) // wakes the other queues
		}
	}
	sends := q.maySend(now) && q.fill(b, now)
	if sends {
		q.inFlight = append(q.inFlight, b)
		q.lastSent = now
		s.scheduleOverdueCheck(b.Deadline, now)
		b.UntilAway = s.untilAway
		if s.breaker.state == HalfOpen {
			s.halfOpenBatch = b
		}
	} else {
		b.Queue = nil
	}
	q.schedule(now)
	return sends
}

// fill moves the requeued requests and the first groups to the batch, in order, except those whose callers have left. It
// reports whether the batch has any.
func (q *Queue[S]) fill(b *Batch[S], now time.Time) bool {
	b.Requests, b.Joined, b.Sent = b.Requests[:0], b.Joined[:0], now
	b.Deadline = now.Add(q.Server.engine.config.MinExchange)
	requeued := q.requeued
	q.requeued = q.requeued[:0]
	q.appendUnexpired(b, requeued, now)
	taken := 0
	for _, g := range q.waiting {
		if len(b.Requests)+len(g.requests) > maxBatch {
			break
		}
		taken++
		if q.appendUnexpired(b, g.requests, now) {
			b.Joined = append(b.Joined, g.enqueuedAt)
		}
	}
	q.waiting = slices.Delete(q.waiting, 0, taken)
	return len(b.Requests) > 0
}

// appendUnexpired appends to the batch those requests whose callers still wait, and reports whether there were any.
func (q *Queue[S]) appendUnexpired(b *Batch[S], requests []*Request[S], now time.Time) bool {
	q.checks -= len(requests)
	before := len(b.Requests)
	for _, r := range requests {
		if r.Expired(now) {
			q.Server.engine.Dropped.Add(1)
			continue
		}
		if r.caller.deadline.After(b.Deadline) {
			b.Deadline = r.caller.deadline
		}
		b.Requests = append(b.Requests, r)
	}
	return len(b.Requests) > before
}

// takeWaiting empties the queue, and returns its requests.
func (q *Queue[S]) takeWaiting() (requests []*Request[S]) {
	requests = q.requeued
	for _, g := range q.waiting {
		requests = append(requests, g.requests...)
	}
	q.requeued, q.waiting, q.checks = nil, nil, 0
	return requests
}

func answerAll[S any](requests []*Request[S], err error) {
	for _, r := range requests {
		r.Answer(err)
	}
}

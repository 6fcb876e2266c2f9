package pipeline

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis/topology"
)

const (
	// pace is how long after a batch the next one leaves at the earliest while the first is out.
	pace = time.Millisecond
	// maxOut is how many batches are out at most.
	maxOut = 16
	// maxBatch is how many checks a batch holds at most: a script call of them blocks the server.
	maxBatch = backend.MaxChecks
	// maxQueue is how many checks wait at most: those of 64 ms at full pace.
	maxQueue = 64 * maxBatch
	// maxYields is how often a worker yields at most before it looks at the queue.
	maxYields = 4
	// idleTime is how long a queue without work is kept.
	idleTime = time.Minute
)

// queue is the queue of one server: checks that arrive while a batch is out leave together in the next, first in first
// out. Workers send batches and end when none may leave, but for one, which idles and keeps its stack.
type queue struct {
	pipeline *Pipeline
	client   *goredis.Client
	name     string // of the server
	maxOut   int    // batches out at most
	meter    Meter

	mu        sync.Mutex
	waiting   []*group
	checks    int           // all that wait
	out       []*Batch      // oldest first
	lastLeft  time.Time     // when the last batch did
	roundTrip time.Duration // of the last one that came back
	waking    bool          // a worker is on its way to the queue
	idle      bool          // a worker waits to be woken
	woken     chan struct{} // has a token once that one is
	timer     *time.Timer   // schedules a batch when the pace allows it
	timerSet  bool
	closed    bool
	lastUsed  time.Time // by a call

	watch // whether the server is to be asked
}

func newQueue(p *Pipeline, client *goredis.Client) *queue {
	// A batch that waits for a connection cannot take what arrives meanwhile.
	q := &queue{pipeline: p, client: client, maxOut: min(maxOut, client.Options().PoolSize), woken: make(chan struct{}, 1),
		lastUsed: time.Now()}
	q.name = p.servers.NameOf(client)
	q.life, q.end = context.WithCancel(context.Background())
	q.connect, q.stopConnecting = context.WithCancel(q.life)
	q.calm.Store(true)
	if p.meter != nil {
		q.meter = p.meter(q.name)
	}
	q.timer = time.AfterFunc(0, q.fire)
	q.overdue = time.AfterFunc(0, q.checkOverdue)
	return q
}

// enqueue adds a group. It returns false if the queue is closed. It refuses at once what cannot leave or be answered
// before the caller's deadline, and everything while the server is away.
func (q *queue) enqueue(g *group, now time.Time) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.lastUsed = now
	deadline := g.call.deadline
	if away := q.away.Load(); away != nil {
		q.mu.Unlock()
		q.pipeline.report(false)
		g.refuse(away)
		return true
	}
	g.joined = now
	// How long what waits takes to leave, about.
	drain := time.Duration(q.checks/maxBatch) * max(pace, q.roundTrip/time.Duration(q.maxOut))
	full := q.checks+len(g.requests) > maxQueue || !now.Add(drain).Before(deadline)
	if !full {
		q.waiting = append(q.waiting, g)
		q.checks += len(g.requests)
		q.schedule(now)
		q.watchDeadline(deadline, now)
	}
	q.mu.Unlock()
	if full {
		g.refuse(errBusy)
	}
	return true
}

// schedule wakes a worker if a batch may leave, now or as soon as it may.
func (q *queue) schedule(now time.Time) {
	switch {
	case q.waking || len(q.waiting) == 0 || !q.hasRoom():
	case q.mayLeave(now):
		q.waking = true
		if !q.wake() {
			q.pipeline.running.Add(1)
			go q.work()
		}
	case !q.timerSet:
		q.timerSet = true
		q.timer.Reset(q.lastLeft.Add(pace).Sub(now))
	}
}

func (q *queue) mayLeave(now time.Time) bool {
	return q.hasRoom() && (q.breaker.state == stateHalfOpen || len(q.out) == 0 || now.Sub(q.lastLeft) >= pace)
}

// hasRoom reports whether one more batch may be out, whenever it leaves.
func (q *queue) hasRoom() bool {
	switch q.breaker.state {
	case stateClosed:
		return len(q.out) < q.maxOut
	case stateHalfOpen:
		return q.trial == nil
	}
	return false
}

func (q *queue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerSet = false
	q.schedule(time.Now())
}

// work sends batches while any may leave, and when it is woken.
func (q *queue) work() {
	defer q.pipeline.running.Done()
	b := q.pipeline.batches.Get().(*Batch)
	for again := true; again; again = q.sleep() {
		q.yield()
		for q.next(b) {
			b.send()
			q.yield()
		}
	}
	q.pipeline.batches.Put(b)
}

// yield lets other goroutines run, and again while the queue grows: callers that are about to join it come into the
// next batch, and those with answers pass them on.
func (q *queue) yield() {
	before := -1
	for range maxYields {
		q.mu.Lock()
		checks := q.checks
		q.mu.Unlock()
		if checks <= before || checks >= maxBatch {
			return
		}
		before = checks
		runtime.Gosched()
	}
}

// sleep waits until the worker is woken. It returns false at once if another worker is idle, or the queue is closed.
func (q *queue) sleep() bool {
	q.mu.Lock()
	sleeps := !q.idle && !q.closed
	if sleeps {
		q.idle = true
	}
	q.mu.Unlock()
	if sleeps {
		<-q.woken
	}
	return sleeps
}

// wake wakes the worker that is idle. It returns false if none is.
func (q *queue) wake() bool {
	woken := q.idle
	if woken {
		q.idle = false
		q.woken <- struct{}{}
	}
	return woken
}

// next takes a batch back, if it was out, and fills it if one may leave.
func (q *queue) next(b *Batch) bool {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.queue == nil {
		b.queue, q.waking = q, false
	} else {
		q.out = slices.DeleteFunc(q.out, func(out *Batch) bool { return out == b })
		q.roundTrip = now.Sub(b.sent)
		if q.trial == b {
			q.trial = nil
		}
	}
	leaves := q.mayLeave(now) && q.fill(b, now)
	if leaves {
		q.out = append(q.out, b)
		q.lastLeft = now
		q.watchDeadline(b.deadline, now)
		b.connect = q.connect
		if q.breaker.state == stateHalfOpen {
			q.trial = b
		}
	} else {
		b.queue = nil
	}
	q.schedule(now)
	return leaves
}

// fill moves the first groups to the batch, in order, without those whose callers have left.
func (q *queue) fill(b *Batch, now time.Time) bool {
	b.groups, b.requests, b.sent, b.deadline = b.groups[:0], b.requests[:0], now, now
	taken := 0
	for _, g := range q.waiting {
		if len(b.requests)+len(g.requests) > maxBatch {
			break
		}
		taken++
		q.checks -= len(g.requests)
		if g.call.expired(now) {
			q.pipeline.totals.dropped.Add(uint64(len(g.requests)))
			continue
		}
		if g.call.deadline.After(b.deadline) {
			b.deadline = g.call.deadline
		}
		b.groups = append(b.groups, g)
		for _, r := range g.requests {
			r.Route = Route{Client: q.client}
			b.requests = append(b.requests, r)
		}
	}
	q.waiting = slices.Delete(q.waiting, 0, taken)
	return len(b.requests) > 0
}

// takeWaiting takes out all that waits.
func (q *queue) takeWaiting() []*group {
	waiting := q.waiting
	q.waiting, q.checks = nil, 0
	return waiting
}

func refuseAll(groups []*group, err error) {
	for _, g := range groups {
		g.refuse(err)
	}
}

// close refuses what waits, and all that comes. Batches that are out come back.
func (q *queue) close(err error) {
	q.mu.Lock()
	waiting := q.takeWaiting()
	q.stop()
	q.timer.Stop()
	q.mu.Unlock()
	refuseAll(waiting, err)
}

func (q *queue) stop() {
	q.closed = true
	q.wake()
	q.end()
}

// retire closes a queue that was idle for idleTime, but that of a server that is away only once it has left for good.
func (q *queue) retire(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	unused := len(q.out) == 0 && len(q.waiting) == 0 && now.Sub(q.lastUsed) >= idleTime
	if unused && q.breaker.state == stateOpen {
		unused = topology.Left(q.client)
	}
	if unused {
		q.stop()
	}
	return unused
}

func (q *queue) stats() ServerStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return ServerStats{Name: q.name, Out: len(q.out), Waiting: q.checks, Away: q.breaker.state == stateOpen,
		Foreign: q.pipeline.script.lastMode(q.client).Foreign}
}

package counter

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/weirproxy/weir/backend/redis"
)

const (
	// pace is how long after a batch the next one leaves although the first has not come back. A server that answers
	// late would otherwise serve one batch for each of its delays.
	pace = time.Millisecond
	// maxOut is how many batches are out at most.
	maxOut = 16
	// maxBatch is how many checks a batch holds at most: while a script call of so many runs, the server does nothing
	// else.
	maxBatch = 64
	// maxQueue is how many checks wait at most: those of 64 ms at full pace.
	maxQueue = 64 * maxBatch
	// maxYields is how often a worker lets others run at most before it looks at the queue.
	maxYields = 4
	// idleTime is how long a lane without work is kept. Its server may have gone.
	idleTime = time.Minute
)

// lane is the queue to one server: checks that arrive while a batch is out leave together, in the next one, first in
// first out. Workers are goroutines that send one batch after the other. When nothing may leave they end, but for one,
// which rests until it is called again: it keeps the stack that it has grown.
type lane struct {
	store  *Store
	client *goredis.Client
	name   string // of the server
	most   int    // batches out at most
	meter  Meter

	mu       sync.Mutex
	queue    queue
	checks   int           // all in the queue
	out      []*batch      // oldest first
	last     time.Time     // when the last one left
	trip     time.Duration // how long the last one to come back was out
	called   bool          // a worker is on its way to the queue
	resting  bool          // a worker waits for call
	call     chan struct{} // has a token once that one is called
	timer    *time.Timer   // calls one when the pace allows it
	ticking  bool
	overdue  *time.Timer // misses
	rings    time.Time   // when that one does; zero: not at all
	closed   bool
	lastUsed time.Time // by a call

	watch // whether the server is to be asked
}

func newLane(s *Store, client *goredis.Client) *lane {
	// A batch without a connection would wait for one, and what arrives meanwhile could not join it.
	l := &lane{store: s, client: client, most: min(maxOut, client.Options().PoolSize), call: make(chan struct{}, 1),
		lastUsed: time.Now()}
	l.name = s.servers.NameOf(client)
	l.life, l.end = context.WithCancel(context.Background())
	l.patient, l.giveUp = context.WithCancel(l.life)
	l.calm.Store(true)
	if s.meter != nil {
		l.meter = s.meter(l.name)
	}
	l.overdue = time.AfterFunc(0, l.miss)
	return l
}

// join lets checks of a call wait, in a row from first on. It returns false if the lane has closed. What cannot leave
// before the caller does, or hardly be answered, is answered at once, and so is everything while the server is away.
func (l *lane) join(first *ask, now time.Time) bool {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return false
	}
	l.lastUsed = now
	if away := l.away.Load(); away != nil && !l.admits(first.call.leave, now) {
		l.mu.Unlock()
		l.store.health.Heard(false)
		refuse(first, away)
		return true
	}
	if len(l.out) > 0 && !now.Add(l.pacer.fastest(now)).Before(first.call.leave) { // one is asked all the same, to find out more
		l.mu.Unlock()
		refuse(first, errSlow)
		return true
	}
	first.joined = now
	crowded := l.checks+first.count > maxQueue || !now.Add(l.drain()).Before(first.call.leave)
	if !crowded {
		l.queue = append(l.queue, first)
		l.checks += first.count
		l.stir(now)
		l.expect(first.call.leave, now)
	}
	l.mu.Unlock()
	if crowded {
		refuse(first, errBusy)
	}
	return true
}

// refuse answers asks in a row from first on.
func refuse(first *ask, err error) {
	for a := first; a != nil; {
		next := a.next
		a.answer(err)
		a = next
	}
}

// drain estimates how long it takes until what waits has left.
func (l *lane) drain() time.Duration {
	return time.Duration(l.checks/maxBatch) * max(pace, l.trip/time.Duration(l.most))
}

// stir calls a worker if a batch may leave, now or as soon as it may.
func (l *lane) stir(now time.Time) {
	switch {
	case l.called || len(l.queue) == 0 || !l.hasRoom():
	case l.mayLeave(now):
		l.called = true
		if !l.wake() {
			l.store.running.Add(1)
			go l.work()
		}
	case !l.ticking:
		l.ticking = true
		wait := l.last.Add(pace).Sub(now)
		if l.timer == nil {
			l.timer = time.AfterFunc(wait, l.tick)
		} else {
			l.timer.Reset(wait)
		}
	}
}

func (l *lane) mayLeave(now time.Time) bool {
	return l.hasRoom() && (l.breaker.condition == returning || len(l.out) == 0 || now.Sub(l.last) >= pace)
}

// hasRoom reports whether one more batch may be out, whenever it leaves.
func (l *lane) hasRoom() bool {
	switch l.breaker.condition {
	case serving:
		return len(l.out) < l.most
	case returning:
		return l.trial == nil
	}
	return false
}

func (l *lane) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticking = false
	l.stir(time.Now())
}

// work sends batches while any may leave, and when it is called again.
func (l *lane) work() {
	defer l.store.running.Done()
	b := l.store.batches.Get().(*batch)
	for again := true; again; again = l.rest() {
		l.yield()
		for l.next(b) {
			b.send()
			l.yield()
		}
		b.release()
	}
	l.store.batches.Put(b)
}

// yield lets whoever can run do so before the worker looks at the queue, and again while that makes the queue longer:
// callers who are about to join it are then in the next batch and not in one of their own, and those who have just been
// answered answer their clients.
func (l *lane) yield() {
	before := -1
	for range maxYields {
		l.mu.Lock()
		checks := l.checks
		l.mu.Unlock()
		if checks <= before || checks >= maxBatch {
			return
		}
		before = checks
		runtime.Gosched()
	}
}

// rest waits until the worker is called again. It returns false at once if another one rests, or the lane has closed.
func (l *lane) rest() bool {
	l.mu.Lock()
	rests := !l.resting && !l.closed
	if rests {
		l.resting = true
	}
	l.mu.Unlock()
	if rests {
		<-l.call
	}
	return rests
}

// wake calls the worker that rests. It returns false if none does.
func (l *lane) wake() bool {
	woken := l.resting
	if woken {
		l.resting = false
		l.call <- struct{}{}
	}
	return woken
}

// next brings a batch back, if it was out, and fills it if one may leave.
func (l *lane) next(b *batch) bool {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.lane == nil {
		b.lane, l.called = l, false
	} else {
		l.out = slices.DeleteFunc(l.out, func(one *batch) bool { return one == b })
		l.trip = now.Sub(b.left)
		if l.trial == b {
			l.trial = nil
		}
	}
	leaves := l.mayLeave(now) && l.fill(b, now)
	if leaves {
		l.out = append(l.out, b)
		l.last = now
		l.expect(b.until, now)
		l.breaker.leaves(b.until.Sub(now), now)
		b.patient = l.patient
		if l.breaker.condition == returning {
			l.trial = b
		}
	} else {
		b.lane = nil
	}
	l.stir(now)
	return leaves
}

// fill moves the first checks of the queue to the batch, but for those whose callers have left. Checks of a call stay
// together, so that those of one key stay in order.
func (l *lane) fill(b *batch, now time.Time) bool {
	b.asks, b.left, b.until = b.asks[:0], now, now
	left := 0
	for _, first := range l.queue {
		c := first.call
		if len(b.asks)+first.count > maxBatch {
			break
		}
		left++
		l.checks -= first.count
		if c.left(now) {
			l.store.dropped.Add(uint64(first.count))
			continue
		}
		if c.leave.After(b.until) {
			b.until = c.leave
		}
		for a := first; a != nil; a = a.next {
			a.Route = redis.Route{Client: l.client}
			b.asks = append(b.asks, a)
		}
	}
	rest := copy(l.queue, l.queue[left:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return len(b.asks) > 0
}

// close refuses what waits with err, and everything from now on. Batches that are out come back.
func (l *lane) close(err error) {
	l.mu.Lock()
	l.closed = true
	waiting := l.empty()
	l.wake() // to end
	l.end()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	waiting.refuse(err)
}

// queue is the first asks of calls that wait.
type queue []*ask

// empty returns what waits, which does not wait in the lane any more.
func (l *lane) empty() queue {
	waiting := l.queue
	l.queue, l.checks = nil, 0
	return waiting
}

func (q queue) refuse(err error) {
	for _, first := range q {
		refuse(first, err)
	}
}

// retire closes a lane that has had nothing to do for long. That of a server that is away stays until the server is
// back, or has left for good.
func (l *lane) retire(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := len(l.out) == 0 && len(l.queue) == 0 && now.Sub(l.lastUsed) >= idleTime
	if idle && l.breaker.condition == absent {
		idle = redis.Left(l.client)
	}
	if idle {
		l.closed = true
		l.wake() // to end
		l.end()
	}
	return idle
}

func (l *lane) stats() ServerStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ServerStats{Name: l.name, Out: len(l.out), Waiting: l.checks, Away: l.breaker.condition == absent}
}

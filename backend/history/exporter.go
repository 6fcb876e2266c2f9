package history

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ExporterConfig says what an exporter takes to where, and when.
type ExporterConfig struct {
	// Drain calls take with all hits that were recorded since it was last called, each series once.
	Drain func(now time.Time, take func(id ID, hits uint64))
	Store Store
	Log   *slog.Logger

	Interval time.Duration // between two flushes; 15 s unless set. Flushes are on its multiples, so that minutes end on one
	Timeout  time.Duration // of one call of the store; 5 s unless set
	MaxCells int           // how many minutes of series may wait in all; 200,000 unless set
}

// Exporter brings hits to a store, exactly once: in batches that are numbered by partition, immutable once sent, and sent
// again until the store has answered. While the store is away hits wait, in wider and wider buckets if they become too
// many, and are dropped and counted last of all.
//
// Once nothing waits, the hits of all series in the store, of what this exporter recorded, are Recorded less Dropped, Lost
// and Refused. Unlike the rest of the package it has a clock, which is the process's: hits belong to the minute in which
// the interval between two flushes began.
type Exporter struct {
	c         ExporterConfig
	calls     context.Context // of all calls of the store
	endCalls  context.CancelFunc
	workEnded chan struct{} // has a token when a lane is done for now

	mu      sync.Mutex
	lanes   [Partitions]lane
	begin   time.Time // of the interval that runs
	width   int64     // minutes that one cell holds
	cells   int       // that wait, as far as is known during a collection
	stats   ExporterStats
	told    ExporterStats // as of when losses were last logged
	failing int           // lanes that have failed more than once in a row
	down    bool          // that some do has been logged
	closed  bool
}

const (
	// maxBusy is how many partitions are sent to at the same time, maxBusyFailing how many of these may have failed
	// before: a server that hangs must not keep others waiting.
	maxBusy, maxBusyFailing = 8, 2
	firstBackoff            = 250 * time.Millisecond
	maxBackoff              = 15 * time.Second
)

// NewExporter makes an exporter that does nothing before [Exporter.Run].
func NewExporter(c ExporterConfig) *Exporter {
	c.Interval = cmp.Or(c.Interval, 15*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.MaxCells = cmp.Or(c.MaxCells, 200_000)
	e := &Exporter{c: c, workEnded: make(chan struct{}, 1), width: 1}
	e.calls, e.endCalls = context.WithCancel(context.Background())
	writer := rand.Text()
	for p := range e.lanes {
		e.lanes[p] = lane{partition: Partition(p), writer: writer}
	}
	return e
}

// Run flushes at each interval's end until ctx ends. Calls of the store that are out then go on; [Exporter.Close] is to
// follow.
func (e *Exporter) Run(ctx context.Context) {
	now := time.Now()
	e.mu.Lock()
	e.begin = now
	e.mu.Unlock()
	tick, retry := time.NewTimer(e.untilFlush(now)), time.NewTimer(0)
	defer tick.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now = time.Now()
			e.collect(now)
			e.makeDue(true)
			e.tellLosses()
			tick.Reset(e.untilFlush(now))
		case <-retry.C:
		case <-e.workEnded:
		}
		retry.Reset(e.dispatch(time.Now()))
	}
}

// early is how much before its time a flush may come, as timers do not run by the clock that says what time it is.
func (e *Exporter) early(now time.Time) time.Time {
	return now.Add(min(e.c.Interval/10, 100*time.Millisecond))
}

func (e *Exporter) untilFlush(now time.Time) time.Duration {
	return e.early(now).Truncate(e.c.Interval).Add(e.c.Interval).Sub(now)
}

// Close flushes what has been recorded, after Run has returned, and waits until the store has it all or ctx ends. What
// still waits then is dropped, and what has no answer is lost.
func (e *Exporter) Close(ctx context.Context) {
	e.collect(time.Now())
	e.makeDue(false)
	retry := time.NewTimer(0)
	defer retry.Stop()
	for ctx.Err() == nil && e.working() {
		retry.Reset(e.dispatch(time.Now()))
		select {
		case <-ctx.Done():
		case <-retry.C:
		case <-e.workEnded:
		}
	}
	e.endCalls()
	e.tellLosses()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var left uint64
	for p := range e.lanes {
		dropped, lost := e.lanes[p].giveUp()
		e.stats.Dropped[Shutdown] += dropped
		e.stats.Lost += lost
		left += dropped + lost
	}
	if left > 0 {
		e.c.Log.Warn("hits did not reach the history before the end", "hits", left)
	}
}

// makeDue has all lanes sent to that have something to send, now at the earliest. Where the store may still forget what
// it has acknowledged, probe has it asked.
func (e *Exporter) makeDue(probe bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p := range e.lanes {
		l := &e.lanes[p]
		l.probe = probe && len(l.sent) > 0
		l.due = l.probe || l.waiting() > 0
		if !probe {
			l.retryAt = time.Time{}
		}
	}
}

// working says whether a lane is being sent to, or is to be.
func (e *Exporter) working() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p := range e.lanes {
		if e.lanes[p].due || e.lanes[p].busy {
			return true
		}
	}
	return false
}

// tellLosses logs what the store has forgotten of what it had acknowledged, in one line for all partitions.
func (e *Exporter) tellLosses() {
	e.mu.Lock()
	resent, lost := e.stats.Resent-e.told.Resent, e.stats.Lost-e.told.Lost
	e.told = e.stats
	e.mu.Unlock()
	if resent+lost > 0 {
		e.c.Log.Warn("the history store forgot batches that it had acknowledged", "sent_again", resent, "lost_hits", lost)
	}
}

// dispatch has lanes sent to that are due, those first that have waited longest, and returns how long until another may
// become so by itself.
func (e *Exporter) dispatch(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	busy, failing, next := 0, 0, maxBackoff
	var due []*lane
	for p := range e.lanes {
		switch l := &e.lanes[p]; {
		case l.busy:
			busy++
			failing += min(l.failures, 1)
		case l.due && l.retryAt.After(now):
			next = min(next, l.retryAt.Sub(now))
		case l.due:
			due = append(due, l)
		}
	}
	slices.SortStableFunc(due, func(a, b *lane) int { return a.retryAt.Compare(b.retryAt) })
	for _, l := range due {
		if busy < maxBusy && (l.failures == 0 || failing < maxBusyFailing) {
			busy++
			failing += min(l.failures, 1)
			l.busy = true
			go e.send(l)
		}
	}
	return next
}

// send sends what a lane has until it has no more or the store does not answer.
func (e *Exporter) send(l *lane) {
	for e.sendOne(l) {
	}
	e.mu.Lock()
	l.busy = false
	e.mu.Unlock()
	select {
	case e.workEnded <- struct{}{}:
	default:
	}
}

// sendOne sends one batch, and says whether to go on.
func (e *Exporter) sendOne(l *lane) bool {
	e.mu.Lock()
	b, any := l.next(time.Now(), &e.stats)
	if l.due = any; !any {
		e.recovered(l)
	}
	e.mu.Unlock()
	if !any {
		return false
	}
	ctx, cancel := context.WithTimeout(e.calls, e.c.Timeout)
	receipt, err := e.c.Store.Apply(ctx, l.partition, b)
	cancel()
	goOn, tell := e.answered(l, b, receipt, err)
	tell()
	return goOn
}

// answered takes the store's answer, or its error. It says whether to go on with the lane, and what is to be told.
func (e *Exporter) answered(l *lane, b Batch, r Receipt, err error) (goOn bool, tell func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed: // all that had no answer has been given up
		return false, func() {}
	case errors.Is(err, ErrBadBatch) && b.Seq > 0:
		e.stats.Errors++
		e.stats.Dropped[Bad] += l.dropBatch()
		return true, func() { e.c.Log.Error("the history will never take some hits: they are dropped", "error", err) }
	case err == nil:
		err = l.answer(now, b, r, &e.stats)
	}
	if err != nil {
		return false, e.noteFailure(l, now, err)
	}
	return true, e.noteSuccess(l, now)
}

func (e *Exporter) noteFailure(l *lane, now time.Time, err error) (tell func()) {
	e.stats.Errors++
	l.failures++
	backoff := min(firstBackoff<<min(l.failures-1, 10), maxBackoff)
	l.retryAt = now.Add(backoff/2 + mathrand.N(backoff/2))
	if l.failures == 2 {
		e.failing++
	}
	if e.failing == 0 || e.down {
		return func() {}
	}
	e.down = true
	return func() { e.c.Log.Warn("the history store takes no hits; they wait", "error", err) }
}

func (e *Exporter) noteSuccess(l *lane, now time.Time) (tell func()) {
	e.stats.LastSuccess = now
	e.recovered(l)
	if e.failing > 0 || !e.down {
		return func() {}
	}
	e.down = false
	return func() { e.c.Log.Info("the history store takes hits again") }
}

// recovered notes that nothing fails in a lane.
func (e *Exporter) recovered(l *lane) {
	if l.failures > 1 {
		e.failing--
	}
	l.failures, l.retryAt = 0, time.Time{}
}

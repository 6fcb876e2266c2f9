// Package export brings recorded hits to a store of the history, exactly once. Package history says what is promised;
// this package has the goroutines and the clock.
package export

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Config tells an exporter where hits come from, where they go, and when.
type Config struct {
	// Drain calls yield with all hits that were recorded since it was last called, each series once.
	Drain func(now time.Time, yield func(id history.ID, hits uint64))
	Store history.Store
	Log   *slog.Logger

	Durable   bool          // the store loses nothing that it has acknowledged, as a file: nothing is waited for at the end
	KeepAcked time.Duration // how long acknowledged batches are kept, as a failover may lose them; a minute unless set
	Interval  time.Duration // between flushes; 15 s unless set. Flushes are at multiples of it, so that each minute ends with one
	Timeout   time.Duration // of one call of the store; 5 s unless set
	MaxCells  int           // how many minutes of series may wait in all; 200,000 unless set
}

// Exporter brings hits to a store, exactly once: in batches that are numbered by partition, immutable once sent, and
// sent again until the store has answered. While the store is away hits wait, by hours once they are many, and are dropped
// and counted once they are too many.
//
// Once nothing waits, the hits of all series in the store, of what this exporter recorded, are Recorded less Dropped,
// Lost and Refused. The clock is the process's: hits belong to the minute in which the interval between two flushes
// began.
type Exporter struct {
	config    Config
	calls     context.Context // of all calls of the store
	endCalls  context.CancelFunc
	workEnded chan struct{} // has a token when an outbox is done for now

	mu            sync.Mutex
	outboxes      [history.Partitions]*outbox
	intervalStart time.Time // of the present interval
	cells         int       // that wait, as far as is known during a collection
	stats         Stats
	logged        Stats // as of when losses were last logged
	failing       int   // outboxes that have failed more than once in a row
	down          bool  // that some do has been logged
	closed        bool
}

const (
	// maxBusy is how many partitions are sent to at the same time, maxBusyFailing how many of these may have failed
	// before: a server that hangs must not keep others waiting.
	maxBusy, maxBusyFailing = 8, 2
	firstBackoff            = 250 * time.Millisecond
	maxBackoff              = 15 * time.Second
)

// New returns an exporter that does nothing before [Exporter.Run].
func New(c Config) *Exporter {
	c.KeepAcked = cmp.Or(c.KeepAcked, time.Minute)
	c.Interval = cmp.Or(c.Interval, 15*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.MaxCells = cmp.Or(c.MaxCells, 200_000)
	e := &Exporter{config: c, workEnded: make(chan struct{}, 1)}
	e.calls, e.endCalls = context.WithCancel(context.Background())
	writer := rand.Text()
	for p := range e.outboxes {
		e.outboxes[p] = &outbox{partition: history.Partition(p), writer: writer, keep: c.KeepAcked}
	}
	return e
}

// Run flushes at the end of each interval until ctx ends. Calls of the store that are under way then go on; call
// [Exporter.Close] next.
func (e *Exporter) Run(ctx context.Context) {
	now := time.Now()
	e.mu.Lock()
	e.intervalStart = now
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
			e.logLosses()
			tick.Reset(e.untilFlush(now))
		case <-retry.C:
		case <-e.workEnded:
		}
		retry.Reset(e.dispatch(time.Now()))
	}
}

// lastFlush returns when the last flush was due. A flush may come a little before its time, as timers do not run by the
// clock that gives the time.
func (e *Exporter) lastFlush(now time.Time) time.Time {
	return now.Add(min(e.config.Interval/10, 100*time.Millisecond)).Truncate(e.config.Interval)
}

func (e *Exporter) untilFlush(now time.Time) time.Duration {
	return e.lastFlush(now).Add(e.config.Interval).Sub(now)
}

// Close flushes what has been recorded, after Run has returned, and waits until the store has all of it, replicated, or ctx
// ends. What still waits then is dropped, and what has no answer is lost.
func (e *Exporter) Close(ctx context.Context) {
	e.collect(time.Now())
	e.makeDue(false)
	e.finish(ctx)
	var unreplicated error
	if !e.config.Durable {
		unreplicated = e.waitReplicated(ctx)
	}
	e.endCalls()
	e.logLosses()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var left uint64
	for _, o := range e.outboxes {
		dropped, lost, kept := o.giveUp()
		e.stats.Dropped[Shutdown] += dropped
		e.stats.Lost += lost
		left += dropped + lost
		if unreplicated != nil {
			e.stats.Unreplicated += kept
		}
	}
	if left > 0 {
		e.config.Log.Warn("hits did not reach the history before the end", "hits", left)
	}
	if e.stats.Unreplicated > 0 {
		e.config.Log.Warn("the last hits in the history are not replicated; a failover may lose them", "hits", e.stats.Unreplicated, "error", unreplicated)
	}
}

// finish sends what is due, until nothing is or ctx ends.
func (e *Exporter) finish(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for ctx.Err() == nil && e.anyOutbox(func(o *outbox) bool { return o.due || o.busy }) {
		retry.Reset(e.dispatch(time.Now()))
		select {
		case <-ctx.Done():
		case <-retry.C:
		case <-e.workEnded:
		}
	}
}

// waitReplicated waits until no failover can lose acknowledged batches: after the end nobody would send them again. Then
// it asks for positions, and sends again what a failover has lost by then. The error says why batches may still be lost.
func (e *Exporter) waitReplicated(ctx context.Context) error {
	for e.anyOutbox(func(o *outbox) bool { return o.acked > 0 }) {
		if err := e.config.Store.WaitReplicated(ctx); err != nil {
			return err
		}
		before := e.Stats().Resent
		e.makeDue(true)
		e.finish(ctx)
		if ctx.Err() != nil || e.Stats().Resent == before {
			return ctx.Err()
		}
	}
	return nil
}

// makeDue marks all outboxes that have something to send as due at once. With probe, the store is also asked for its
// position where it may still forget what it has acknowledged.
func (e *Exporter) makeDue(probe bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range e.outboxes {
		o.probe = probe && len(o.batches) > 0
		o.due = o.probe || o.waiting() > 0
		if !probe {
			o.retryAt = time.Time{}
		}
	}
}

// anyOutbox reports whether kind is true for an outbox.
func (e *Exporter) anyOutbox(kind func(*outbox) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.outboxes[:], kind)
}

// logLosses logs what the store has forgotten of what it had acknowledged, in one line for all partitions.
func (e *Exporter) logLosses() {
	e.mu.Lock()
	resent, lost := e.stats.Resent-e.logged.Resent, e.stats.Lost-e.logged.Lost
	e.logged = e.stats
	e.mu.Unlock()
	if resent+lost > 0 {
		e.config.Log.Warn("the history store forgot batches that it had acknowledged", "sent_again", resent, "lost_hits", lost)
	}
}

// dispatch begins to send from outboxes that are due, those first that have waited longest. It returns how long until
// another may become due by itself.
func (e *Exporter) dispatch(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	busy, failing, next := 0, 0, maxBackoff
	var due []*outbox
	for _, o := range e.outboxes {
		switch {
		case o.busy:
			busy++
			failing += min(o.failures, 1)
		case o.due && o.retryAt.After(now):
			next = min(next, o.retryAt.Sub(now))
		case o.due:
			due = append(due, o)
		}
	}
	slices.SortStableFunc(due, func(a, b *outbox) int { return a.retryAt.Compare(b.retryAt) })
	for _, o := range due {
		if busy < maxBusy && (o.failures == 0 || failing < maxBusyFailing) {
			busy++
			failing += min(o.failures, 1)
			o.busy = true
			go e.send(o)
		}
	}
	return next
}

// send sends what an outbox has until it has no more or the store does not answer.
func (e *Exporter) send(o *outbox) {
	for e.sendOne(o) {
	}
	e.mu.Lock()
	o.busy = false
	e.mu.Unlock()
	select {
	case e.workEnded <- struct{}{}:
	default:
	}
}

// sendOne sends one batch, and reports whether to go on.
func (e *Exporter) sendOne(o *outbox) bool {
	e.mu.Lock()
	b, found := o.next(time.Now(), &e.stats)
	if o.due = found; !found {
		e.noteSuccess(o)
	}
	e.mu.Unlock()
	if !found {
		return false
	}
	ctx, cancel := context.WithTimeout(e.calls, e.config.Timeout)
	result, err := e.config.Store.Apply(ctx, o.partition, b)
	cancel()
	return e.noteAnswer(o, b, result, err)
}

// noteAnswer notes the store's answer to a batch, or its error, and reports whether to go on with the outbox.
func (e *Exporter) noteAnswer(o *outbox, b history.Batch, r history.ApplyResult, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed: // all that had no answer has been given up
		return false
	case err == nil:
		err = o.noteAnswer(now, b, r, &e.stats)
	}
	if err != nil {
		e.noteFailure(o, now, err)
		return false
	}
	e.noteSuccess(o)
	if e.down && e.failing == 0 {
		e.down = false
		e.config.Log.Info("the history store accepts hits again")
	}
	return true
}

// noteFailure notes that a batch of an outbox was not accepted.
func (e *Exporter) noteFailure(o *outbox, now time.Time, err error) {
	o.failures++
	backoff := min(firstBackoff<<min(o.failures-1, 10), maxBackoff)
	o.retryAt = now.Add(backoff/2 + mathrand.N(backoff/2))
	if o.failures == 2 {
		e.failing++
	}
	if e.failing > 0 && !e.down {
		e.down = true
		e.config.Log.Warn("the history store accepts no hits; they will be sent again", "error", err)
	}
}

// noteSuccess notes that nothing fails any more in an outbox.
func (e *Exporter) noteSuccess(o *outbox) {
	if o.failures > 1 {
		e.failing--
	}
	o.failures, o.retryAt = 0, time.Time{}
}

// Package export sends recorded hits to a store of the history, exactly once.
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

// Config configures an exporter.
type Config struct {
	// Drain calls yield with all hits that were recorded since the last call, once for each series.
	Drain func(now time.Time, yield func(id history.ID, hits uint64))
	Store history.Store
	Log   *slog.Logger

	Durable   bool          // the store, such as a file, never loses acknowledged hits, so Close does not wait for replicas
	KeepAcked time.Duration // how long acknowledged batches are kept, as a failover may lose them; default a minute
	Interval  time.Duration // time between flushes, which are at multiples of it, so that each minute ends with one; default 15 s
	Timeout   time.Duration // timeout of a call of the store; default 5 s
	MaxCells  int           // how many cells (minutes of series) may wait in all; default 200,000
}

// Exporter sends hits to a store, exactly once: in batches that are numbered by partition, immutable once sent, and
// sent again until the store has answered. While the store is away hits wait. If many wait, they are summed up by
// hours; if too many wait, new ones are dropped and counted.
//
// When nothing waits, the store has counted Recorded - Dropped - Lost - Refused hits of this exporter. Hits belong to
// the minute in which the interval between two flushes began, by the clock of this process.
type Exporter struct {
	config    Config
	calls     context.Context // context of all calls of the store
	endCalls  context.CancelFunc
	workEnded chan struct{} // has a token after an outbox has stopped sending

	mu            sync.Mutex
	outboxes      [history.Partitions]*outbox
	intervalStart time.Time // beginning of the present interval
	cells         int       // number of waiting cells; up to date only in collect
	stats         Stats
	logged        Stats // stats when losses were last logged
	failing       int   // number of outboxes that have failed more than once in a row
	down          bool  // it is logged that some outboxes fail
	closed        bool
}

const (
	// maxBusy bounds the partitions that are sent to at the same time, maxBusyFailing those of them whose last batch
	// failed, so that a server that hangs does not hold up others.
	maxBusy, maxBusyFailing = 8, 2
	firstBackoff            = 250 * time.Millisecond
	maxBackoff              = 15 * time.Second
)

// New returns an exporter. It sends nothing before [Exporter.Run].
func New(c Config) *Exporter {
	c.KeepAcked = cmp.Or(c.KeepAcked, time.Minute)
	c.Interval = cmp.Or(c.Interval, 15*time.Second)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.MaxCells = cmp.Or(c.MaxCells, 200_000)
	e := &Exporter{config: c, workEnded: make(chan struct{}, 1)}
	e.calls, e.endCalls = context.WithCancel(context.Background())
	writer := rand.Text()
	for p := range e.outboxes {
		e.outboxes[p] = &outbox{partition: history.Partition(p), writer: writer, keepAcked: c.KeepAcked}
	}
	return e
}

// Run flushes at the end of each interval until ctx ends. Running calls of the store then continue; call
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

// lastFlush returns when the last flush was due. A timer may fire a little before its time, as it does not run by the
// wall clock.
func (e *Exporter) lastFlush(now time.Time) time.Time {
	return now.Add(min(e.config.Interval/10, 100*time.Millisecond)).Truncate(e.config.Interval)
}

func (e *Exporter) untilFlush(now time.Time) time.Duration {
	return e.lastFlush(now).Add(e.config.Interval).Sub(now)
}

// Close flushes the recorded hits, after Run has returned, and waits until the store has counted and replicated them,
// or ctx ends. Hits that still wait then are dropped; unacknowledged ones count as lost.
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
		dropped, lost, acked := o.giveUp()
		e.stats.Dropped[Shutdown] += dropped
		e.stats.Lost += lost
		left += dropped + lost
		if unreplicated != nil {
			e.stats.Unreplicated += acked
		}
	}
	if left > 0 {
		e.config.Log.Warn("hits did not reach the history before the end", "hits", left)
	}
	if e.stats.Unreplicated > 0 {
		e.config.Log.Warn("the last hits in the history are not replicated", "hits", e.stats.Unreplicated, "error", unreplicated,
			"effect", "a failover may lose them")
	}
}

// finish sends until no outbox is due or ctx ends.
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

// waitReplicated waits until no failover can lose acknowledged batches, as nobody would send them again later. Then it
// asks the store for positions, and sends batches again that a failover has lost meanwhile. It returns an error if
// batches may still be lost.
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

// makeDue makes all outboxes due that have something to send. With probe, the exporter also asks the store for its
// position in partitions in which it may still lose acknowledged batches.
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

// anyOutbox reports whether an outbox matches.
func (e *Exporter) anyOutbox(matches func(*outbox) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.outboxes[:], matches)
}

// logLosses logs how many acknowledged batches the store has lost, in one line for all partitions.
func (e *Exporter) logLosses() {
	e.mu.Lock()
	resent, lost := e.stats.Resent-e.logged.Resent, e.stats.Lost-e.logged.Lost
	e.logged = e.stats
	e.mu.Unlock()
	if resent+lost > 0 {
		e.config.Log.Warn("the history store forgot batches that it had acknowledged", "sent_again", resent, "lost_hits", lost)
	}
}

// dispatch starts to send from due outboxes, beginning with the one that has waited longest. It returns the time until
// the next outbox may become due.
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

// send sends from an outbox until it has nothing to send or the store does not answer.
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

// sendOne sends one batch, and reports whether to send another.
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

// noteAnswer notes the store's answer to a batch, or its error, and reports whether to send another from the outbox.
func (e *Exporter) noteAnswer(o *outbox, b history.Batch, r history.ApplyResult, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case e.closed: // the batch has been given up
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

// noteFailure notes that the store did not accept a batch of an outbox.
func (e *Exporter) noteFailure(o *outbox, now time.Time, err error) {
	o.failures++
	backoff := min(firstBackoff<<min(o.failures-1, 10), maxBackoff)
	o.retryAt = now.Add(backoff/2 + mathrand.N(backoff/2))
	if o.failures == 2 {
		e.failing++
	}
	if e.failing > 0 && !e.down {
		e.down = true
		e.config.Log.Warn("the history store accepts no hits", "error", err, "effect", "they will be sent again")
	}
}

// noteSuccess notes that the store accepts the batches of an outbox.
func (e *Exporter) noteSuccess(o *outbox) {
	if o.failures > 1 {
		e.failing--
	}
	o.failures, o.retryAt = 0, time.Time{}
}

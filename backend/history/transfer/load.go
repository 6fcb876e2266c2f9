package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Store is what rows are counted in: of a [history.Store], what writes.
type Store interface {
	Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error)
	Roll(ctx context.Context, job history.Job) (history.RollResult, error)
}

// Target is where rows are counted.
type Target struct {
	Store Store
	// Concurrency is how many batches may be on their way at a time, at least 1. A file writes what waits in one
	// transaction, so many are good; to what else asks a server, each is another quarter of a millisecond to wait.
	Concurrency int
	Now         func() time.Time // whose clock says what is old
	// Retention is after what time the store drops days; 0 does not ask. An import refuses rows that are older by more
	// than [history.ForgetAfter].
	Retention time.Duration
}

// rollEvery is after how many minutes what is old is moved to coarser buckets: so many points are some 10 MB of Redis.
const rollEvery = 500_000

// ErrForgotten means that a store no longer has batches that it had acknowledged, as after a failover. A second run
// counts what is missing.
var ErrForgotten = errors.New("the store has forgotten some of what it acknowledged, as after a failover: run the same command again, and it adds what is missing, once")

// Loaded is what counting rows has done so far.
type Loaded struct {
	Rows    uint64
	Hits    uint64 // in these rows, but for near and shadow hits, which are parts of others
	Known   uint64 // of Hits, those that an earlier run had counted
	New     uint64 // batches that no earlier run had counted
	Clamped uint64 // hits counted in an earlier minute than their own, as the store's clock is behind
	Refused uint64 // hits that were not counted, as their series is full

	Warnings []string // of an import: sentences about rows that were counted, but perhaps not as they were meant
}

// Loader counts rows in a store, as the batches of one writer. The same rows in the same order make the same batches, so
// a store that has counted some of them knows them: for [history.ForgetAfter] after they came, each counts once, however
// often and wherever counting was interrupted. One goroutine may use it.
//
// The store should be opened with a Keep that allows any number of points: old minutes are many, for the moment, and
// rolling a series early with each of them would take long.
type Loader struct {
	to      Target
	writer  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	pending   [history.Partitions]pending
	queues    []chan batch
	untilRoll int // minutes

	mu  sync.Mutex
	did Loaded
}

// pending is a partition's increments that wait to be a batch.
type pending struct {
	seq        uint64
	increments []history.Increment
	minutes    map[history.Increment]bool // which of them are there, without their hits
}

// batch is one on its way.
type batch struct {
	partition history.Partition
	history.Batch
}

// NewLoader returns a loader for a writer, named for the rows. It ends with ctx. Close must be called.
func NewLoader(ctx context.Context, to Target, writer string) *Loader {
	l := &Loader{to: to, writer: writer, queues: make([]chan batch, max(1, to.Concurrency)), untilRoll: rollEvery}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	for i := range l.queues {
		l.queues[i] = make(chan batch, 2)
		l.running.Go(func() { l.send(l.queues[i]) })
	}
	return l
}

// Add counts a row, which must be sound. Its error is that of a store which failed at any row before.
func (l *Loader) Add(r Row) error {
	for minute, hits := range r.Minutes() {
		l.untilRoll--
		l.add(r.ID.Partition(), history.Increment{ID: r.ID, Minute: minute, Hits: hits})
	}
	l.mu.Lock()
	l.did.Rows++
	l.did.Hits += wholeHits(r.ID, r.Sum)
	l.mu.Unlock()
	if l.untilRoll <= 0 {
		l.untilRoll = rollEvery
		// What could not be moved waits for the next time: a series may be damaged, or change too fast because somebody else
		// writes to it. A store that is away fails the next batch.
		_ = l.roll()
	}
	return context.Cause(l.ctx)
}

// wholeHits returns hits of a series, 0 if they are a part of another's.
func wholeHits(id history.ID, hits uint64) uint64 {
	if id.Outcome.IsPart() {
		return 0
	}
	return hits
}

// add adds an increment to its partition's next batch.
func (l *Loader) add(p history.Partition, i history.Increment) {
	next := &l.pending[p]
	minute := history.Increment{ID: i.ID, Minute: i.Minute}
	if next.minutes[minute] || len(next.increments) == history.MaxBatch {
		l.dispatch(p)
	}
	if next.minutes == nil {
		next.minutes = make(map[history.Increment]bool, history.MaxBatch)
	}
	next.minutes[minute] = true
	next.increments = append(next.increments, i)
}

// dispatch sends what waits of a partition on its way, after its earlier batches.
func (l *Loader) dispatch(p history.Partition) {
	next := &l.pending[p]
	if len(next.increments) == 0 {
		return
	}
	next.seq++
	b := history.Batch{Writer: l.writer, Seq: next.seq, After: next.seq - 1, Increments: slices.Clone(next.increments)}
	next.increments = next.increments[:0]
	clear(next.minutes)
	select {
	case l.queues[int(p)%len(l.queues)] <- batch{p, b}:
	case <-l.ctx.Done():
	}
}

// send brings batches to the store, in their order, until there are no more or one fails.
func (l *Loader) send(queue <-chan batch) {
	for b := range queue {
		if l.ctx.Err() != nil {
			continue // so that nobody waits for the queue
		}
		r, err := l.to.Store.Apply(l.ctx, b.partition, b.Batch)
		if err == nil && r.Status == history.Gap {
			err = ErrForgotten
		}
		if err != nil {
			l.cancel(err)
			continue
		}
		l.mu.Lock()
		l.did.Clamped += r.Clamped
		if r.Last == b.Seq {
			l.did.Refused += r.Refused // an earlier batch's are no longer known
		}
		if r.Status == history.Applied {
			l.did.New++
		} else {
			for _, i := range b.Increments {
				l.did.Known += wholeHits(i.ID, i.Hits)
			}
		}
		l.mu.Unlock()
	}
}

// roll moves what is old, as weir downsample does.
func (l *Loader) roll() error {
	_, err := l.to.Store.Roll(l.ctx, history.Job{Now: l.to.Now()})
	return err
}

// Did returns what has been done so far. What the store says of batches that are on their way is not there yet.
func (l *Loader) Did() Loaded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.did
}

// Close waits until the store has everything, and moves what is old to coarser buckets, unless counting has failed:
// failed is why, or nil. It returns that, or the store's error.
func (l *Loader) Close(failed error) (Loaded, error) {
	if failed != nil {
		l.cancel(failed)
	}
	for p := range history.Partitions {
		l.dispatch(history.Partition(p))
	}
	for _, queue := range l.queues {
		close(queue)
	}
	l.running.Wait()
	err := context.Cause(l.ctx)
	if err == nil {
		if err = l.roll(); err != nil {
			err = fmt.Errorf("everything is counted, but not all that is old was moved to coarser buckets, which weir serve or "+
				"weir downsample does as well: %w", err)
		}
	}
	l.cancel(nil)
	return l.Did(), err
}

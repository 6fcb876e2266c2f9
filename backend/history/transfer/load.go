package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirproxy/weir/backend/history"
)

// Target is where rows are counted.
type Target struct {
	Store history.Store
	// Concurrency is how many batches may be on their way at a time, at least 1. A file writes what waits in one
	// transaction, so many are good; in Redis, each makes other callers wait another quarter of a millisecond.
	Concurrency int
	Now         func() time.Time // whose clock says what is old
	Retention   time.Duration    // after which the store drops days, so that an import refuses older rows; 0 does not ask

	// Of an import.
	DryRun    bool          // count nothing
	Add       bool          // count rows that look counted, too
	Done, All *atomic.Int64 // rows that are counted, of how many; nil for nobody
}

const (
	downsampleEvery = 500_000 // buckets are counted before what is old is moved to coarser buckets: some 10 MB of Redis
	maxWaiting      = 256     // batches begin before those that are full are sent
)

// errBatchesLost means that a store no longer has batches that it had acknowledged, as after a failover. A second run
// counts what is missing.
var errBatchesLost = errors.New("the store has forgotten some of what it acknowledged, as after a failover: run the same " +
	"command again, and it adds what is missing, once")

// Loaded is what counting rows has done so far.
type Loaded struct {
	Rows        uint64
	Hits        uint64 // in these rows, but for near hits, which are a part of those within
	Duplicates  uint64 // part of Hits that an earlier run had counted
	Refused     uint64 // hits that were not counted, as their series is full
	Resumed     bool   // an earlier run of the same file began, and its hits are not counted again
	LookCounted uint64 // rows that look counted, if not Resumed: the store holds as many hits there
}

// Loader counts rows in a store, as the batches of one writer. The same rows in the same order make the same batches,
// so a store that has counted some of them knows them: for [history.WriterTTL] after they came, each counts once,
// however often and wherever counting was interrupted. One goroutine may use it.
//
// The store should be opened with a Retention that allows any number of points: an import has many old minutes at
// first, and downsampling a series early with each of them would take long.
type Loader struct {
	ctx             context.Context
	to              Target
	writer          string
	queues          [history.Partitions]queue
	begun           int // batches begun since batches were last sent
	untilDownsample int // buckets
	loaded          Loaded
}

// queue is the batches that wait for a partition. Increments are added to the last one.
type queue struct {
	seq     uint64 // of the last batch
	batches []history.Batch
	buckets map[history.Increment]bool // of the last batch, without their hits
}

// NewLoader returns a loader for a writer, named for the rows. It ends with ctx.
func NewLoader(ctx context.Context, to Target, writer string) *Loader {
	return &Loader{ctx: ctx, to: to, writer: writer, untilDownsample: downsampleEvery}
}

// Add counts a row, which must be sound. After an error nothing more is to be added.
func (l *Loader) Add(r Row) error {
	l.loaded.Rows++
	l.loaded.Hits += distinctHits(r.ID, r.Sum)
	if l.to.Done != nil {
		l.to.Done.Add(1)
	}
	for i := range r.Increments() {
		l.untilDownsample--
		l.add(&l.queues[r.ID.Partition()], i)
	}
	if l.begun >= maxWaiting {
		if err := l.send(false); err != nil {
			return err
		}
	}
	if l.untilDownsample <= 0 {
		l.untilDownsample = downsampleEvery
		// What could not be moved waits for the next time: a series may be damaged, or change too fast because somebody
		// else writes to it. A store that is away fails the next batch.
		_, _ = l.to.Store.Downsample(l.ctx, l.to.Now())
	}
	return context.Cause(l.ctx)
}

// distinctHits returns hits of a series, 0 if another series has them too.
func distinctHits(id history.ID, hits uint64) uint64 {
	if id.Outcome.IsPart() {
		return 0
	}
	return hits
}

// add adds an increment to its partition's last batch, or begins another where that is full or has its bucket.
func (l *Loader) add(to *queue, i history.Increment) {
	bucket := history.Increment{ID: i.ID, Minute: i.Minute, Tier: i.Tier}
	if len(to.batches) == 0 || to.buckets[bucket] || len(to.buckets) == history.MaxBatch {
		to.seq++
		l.begun++
		to.batches = append(to.batches, history.Batch{Writer: l.writer, Seq: to.seq, After: to.seq - 1})
		to.buckets = make(map[history.Increment]bool, history.MaxBatch)
	}
	to.buckets[bucket] = true
	last := &to.batches[len(to.batches)-1]
	last.Increments = append(last.Increments, i)
}

// send brings batches to the store, those of a partition in their order: all, or those that are full.
func (l *Loader) send(all bool) error {
	var mu sync.Mutex
	sending, ctx := errgroup.WithContext(l.ctx)
	sending.SetLimit(max(1, l.to.Concurrency))
	for p := range l.queues {
		q := &l.queues[p]
		count := len(q.batches)
		if !all {
			count = max(count-1, 0)
		}
		batches := q.batches[:count]
		q.batches = slices.Clone(q.batches[count:])
		if count == 0 {
			continue
		}
		sending.Go(func() error {
			for i := range batches {
				r, err := l.to.Store.Apply(ctx, history.Partition(p), batches[i])
				if err == nil && r.Status == history.Gap {
					err = errBatchesLost
				}
				if err != nil {
					return err
				}
				mu.Lock()
				l.loaded.add(&batches[i], r)
				mu.Unlock()
			}
			return nil
		})
	}
	l.begun = 0
	return sending.Wait()
}

// add adds what the store answered to a batch.
func (l *Loaded) add(b *history.Batch, r history.ApplyResult) {
	if r.Last == b.Seq {
		l.Refused += r.Refused // an earlier batch's are no longer known
	}
	for _, i := range b.Increments {
		if r.Status == history.Duplicate {
			l.Duplicates += distinctHits(i.ID, i.Hits)
		}
	}
}

// Close brings everything to the store, and moves what is old to coarser buckets.
func (l *Loader) Close() (Loaded, error) {
	err := l.send(true)
	if err == nil {
		if _, err = l.to.Store.Downsample(l.ctx, l.to.Now()); err != nil {
			err = fmt.Errorf("everything is counted, but not all that is old was moved to coarser buckets, which weir serve or "+
				"weir downsample does as well: %w", err)
		}
	}
	return l.loaded, err
}

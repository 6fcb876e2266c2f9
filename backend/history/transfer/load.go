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

// Target configures where and how rows are counted.
type Target struct {
	Store history.Store
	// Concurrency bounds the batches that are sent at the same time, at least 1. A file writes all waiting batches in one
	// transaction, so many are good; in Redis, each delays other callers by a quarter of a millisecond.
	Concurrency int
	Now         func() time.Time
	Retention   time.Duration // age at which the store drops days; an import refuses older rows; 0: none

	// For an import.
	DryRun    bool          // count nothing
	Add       bool          // also count rows that look counted
	Done, All *atomic.Int64 // for progress, the numbers of counted rows and of all rows; may be nil
}

const (
	downsampleEvery = 500_000 // buckets counted before old buckets are downsampled: some 10 MB in Redis
	maxWaiting      = 256     // batches begun before the full ones are sent
)

// errBatchesLost means that a store has lost acknowledged batches, as in a failover. A second run counts the missing
// ones.
var errBatchesLost = errors.New("the store has forgotten some of what it acknowledged, as after a failover: run the same " +
	"command again, and it adds what is missing, once")

// LoadResult is the result of counting rows.
type LoadResult struct {
	Rows        uint64
	Hits        uint64 // hits in these rows, without near hits, which are a part of those within
	Duplicates  uint64 // part of Hits that an earlier run had counted
	Refused     uint64 // hits that were not counted, as their series is full
	Resumed     bool   // an earlier run had begun to count the same file
	LookCounted uint64 // unless Resumed, rows that look counted, as the store has as many hits there
}

// Loader counts rows in a store, as the batches of one writer. The same rows in the same order make the same batches,
// so for [history.WriterTTL] the store recognizes them, and counts each row once, even if loading is interrupted and
// repeated. A Loader is not for concurrent use.
//
// The store should be opened with a Retention that allows any number of points: an import has many old minutes at
// first, and to downsample a series early with each of them would take long.
type Loader struct {
	ctx             context.Context
	to              Target
	writer          string
	queues          [history.Partitions]queue
	begun           int // number of batches begun since batches were last sent
	untilDownsample int // number of buckets until the next call of Downsample
	loaded          LoadResult
}

// queue has the waiting batches of a partition. Increments are added to the last one.
type queue struct {
	seq     uint64 // number of the last batch
	batches []history.Batch
	buckets map[history.Increment]bool // buckets in the last batch, as increments without hits
}

// NewLoader returns a loader. The name of the writer must identify the rows. The loader fails when ctx ends.
func NewLoader(ctx context.Context, to Target, writer string) *Loader {
	return &Loader{ctx: ctx, to: to, writer: writer, untilDownsample: downsampleEvery}
}

// Add counts a row, which must be valid. After an error the loader must not be used.
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
		// Chunks that cannot be moved wait for the next time: a series may be damaged, or another process may change it too
		// often. If the store is away, the next batch fails.
		_, _ = l.to.Store.Downsample(l.ctx, l.to.Now())
	}
	return context.Cause(l.ctx)
}

// distinctHits returns hits, or 0 if another series of the same domain and path has them too.
func distinctHits(id history.ID, hits uint64) uint64 {
	if id.Outcome.IsPart() {
		return 0
	}
	return hits
}

// add adds an increment to its partition's last batch, or to a new one if that is full or has the same bucket.
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

// send sends all batches, or only the full ones, to the store, those of a partition in their order.
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

// add adds the result of a batch.
func (l *LoadResult) add(b *history.Batch, r history.ApplyResult) {
	if r.Last == b.Seq {
		l.Refused += r.Refused // the store has forgotten those of earlier batches
	}
	for _, i := range b.Increments {
		if r.Status == history.Duplicate {
			l.Duplicates += distinctHits(i.ID, i.Hits)
		}
	}
}

// Close sends the remaining batches, and calls Downsample.
func (l *Loader) Close() (LoadResult, error) {
	err := l.send(true)
	if err == nil {
		if _, err = l.to.Store.Downsample(l.ctx, l.to.Now()); err != nil {
			err = fmt.Errorf("everything is counted, but not all that is old was moved to coarser buckets, which weir serve or "+
				"weir downsample does as well: %w", err)
		}
	}
	return l.loaded, err
}

package transfer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
)

// Store is what rows are laid down in: of a [history.Store], what writes.
type Store interface {
	Apply(ctx context.Context, p history.Partition, b history.Batch) (history.Receipt, error)
	Roll(ctx context.Context, job history.Job) (history.Rolled, error)
}

// Target is where rows are laid down.
type Target struct {
	Store Store
	// Lanes is how many batches may be on their way at a time, at least 1. A file writes what waits in one transaction, so
	// many are good; to what else asks a server, each is another quarter of a millisecond to wait.
	Lanes int
	Now   func() time.Time // whose clock says what is old
	// Retention is after what time the store drops days; 0 does not ask. An import refuses rows that are older by more
	// than [history.ForgetAfter].
	Retention time.Duration
}

const (
	// rollEvery is after how many minutes what is old is moved to coarser buckets: so many points are some 10 MB of Redis.
	rollEvery = 500_000
)

// Loaded is what laying rows down has done so far.
type Loaded struct {
	Rows    uint64
	Hits    uint64 // in these rows, but for those of Parts
	Parts   uint64 // near and shadow hits, which are among Hits where the rows hold all of a rule
	Minutes uint64 // that they were laid down as
	Clamped uint64 // hits and parts counted in an earlier minute than their own, as the store's clock is behind
	Refused uint64 // hits and parts that were not counted, as their series is full

	Known, KnownParts uint64 // of Hits and Parts, those that an earlier run had counted

	Warnings []string // of an import: sentences about rows that were counted, but perhaps not as they were meant
}

// Loader lays rows down in a store, as the batches of one writer. The same rows in the same order make the same batches,
// so a store that has counted some of them knows them: for [history.ForgetAfter] after they came, each counts once,
// however often and wherever laying down was interrupted. One goroutine may use it.
//
// The store should be opened with a Keep that allows any number of points: old minutes are many, for the moment, and
// rolling a series early with each of them would take long.
type Loader struct {
	to      Target
	writer  string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	parts   [history.Partitions]part
	lanes   []chan lot
	left    int // minutes until the next roll
	did     Loaded
	mu      sync.Mutex
	receipt Loaded // what the store said: Known, KnownParts, Clamped, Refused
}

// part is a partition's increments that wait to be a batch.
type part struct {
	seq     uint64
	waiting []history.Increment
	at      map[cell]int // where in waiting
}

type cell struct {
	id     history.ID
	minute int64
}

// lot is a batch on its way.
type lot struct {
	p history.Partition
	b history.Batch
}

// NewLoader returns a loader of what a writer, named for the rows, has to say. It ends with ctx. Close must be called.
func NewLoader(ctx context.Context, to Target, writer string) *Loader {
	l := &Loader{to: to, writer: writer, lanes: make([]chan lot, max(1, to.Lanes)), left: rollEvery}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	for i := range l.lanes {
		l.lanes[i] = make(chan lot, 2)
		l.running.Go(func() { l.send(l.lanes[i]) })
	}
	return l
}

// Add lays a row down, which must be sound. Its error is that of a store which failed at any row before.
func (l *Loader) Add(r Row) error {
	var err error
	p := r.ID.Partition()
	r.Lay(func(minute int64, hits uint64) bool {
		l.did.Minutes++
		l.left--
		err = l.put(p, history.Increment{ID: r.ID, Minute: minute, Hits: hits})
		return err == nil
	})
	if err != nil {
		return err
	}
	l.did.Rows++
	if r.ID.Outcome.IsPart() {
		l.did.Parts += r.Sum
	} else {
		l.did.Hits += r.Sum
	}
	if l.left <= 0 {
		l.left = rollEvery
		// What could not be moved waits for the next time: a series may be damaged, or change too fast because somebody else
		// writes to it. A store that is away fails the next batch.
		_ = l.roll(l.ctx)
	}
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return nil
}

// put adds an increment to its partition's next batch. Two of the same minute are one, unless that is more than a batch
// may say of it.
func (l *Loader) put(p history.Partition, i history.Increment) error {
	part := &l.parts[p]
	c := cell{i.ID, i.Minute}
	if at, is := part.at[c]; is {
		if sum := part.waiting[at].Hits + i.Hits; sum <= history.MaxTotal {
			part.waiting[at].Hits = sum
			return nil
		}
		if err := l.dispatch(p); err != nil {
			return err
		}
	}
	if part.at == nil {
		part.at = make(map[cell]int, history.MaxBatch)
	}
	part.at[c] = len(part.waiting)
	part.waiting = append(part.waiting, i)
	if len(part.waiting) == history.MaxBatch {
		return l.dispatch(p)
	}
	return nil
}

// dispatch sends what waits of a partition on its way, after its earlier batches.
func (l *Loader) dispatch(p history.Partition) error {
	part := &l.parts[p]
	if len(part.waiting) == 0 {
		return nil
	}
	part.seq++
	b := history.Batch{Writer: l.writer, Seq: part.seq, After: part.seq - 1, Increments: slices.Clone(part.waiting)}
	part.waiting = part.waiting[:0]
	clear(part.at)
	select {
	case l.lanes[int(p)%len(l.lanes)] <- lot{p, b}:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// send brings batches to the store, in their order, until there are no more or one fails.
func (l *Loader) send(lane <-chan lot) {
	for s := range lane {
		if l.ctx.Err() != nil {
			continue // so that nobody waits for the lane
		}
		r, err := l.to.Store.Apply(l.ctx, s.p, s.b)
		if err == nil && r.Landing == history.Gap {
			err = ErrForgotten
		}
		if err != nil {
			l.cancel(err)
			continue
		}
		l.mu.Lock()
		l.receipt.Clamped += r.Clamped
		if r.Last == s.b.Seq {
			l.receipt.Refused += r.Refused // an earlier batch's are no longer known
		}
		if r.Landing == history.Known {
			for _, i := range s.b.Increments {
				if i.ID.Outcome.IsPart() {
					l.receipt.KnownParts += i.Hits
				} else {
					l.receipt.Known += i.Hits
				}
			}
		}
		l.mu.Unlock()
	}
}

// roll moves what is old, as weir downsample does.
func (l *Loader) roll(ctx context.Context) error {
	_, err := l.to.Store.Roll(ctx, history.Job{Now: l.to.Now()})
	return err
}

// Did returns what has been done so far. Of rows whose batches are on their way, Known, Clamped and Refused are not there
// yet.
func (l *Loader) Did() Loaded {
	l.mu.Lock()
	defer l.mu.Unlock()
	did := l.did
	did.Known, did.KnownParts, did.Clamped, did.Refused = l.receipt.Known, l.receipt.KnownParts, l.receipt.Clamped, l.receipt.Refused
	return did
}

// Close waits until the store has everything, and moves what is old to coarser buckets, unless laying down has failed:
// failed is why, or nil. It returns that, or the store's error.
func (l *Loader) Close(failed error) (Loaded, error) {
	if failed != nil {
		l.cancel(failed)
	}
	for p := range l.parts {
		if l.ctx.Err() == nil {
			_ = l.dispatch(history.Partition(p)) // which fails only once ctx has ended
		}
	}
	for _, lane := range l.lanes {
		close(lane)
	}
	l.running.Wait()
	err := context.Cause(l.ctx)
	if err == nil {
		if err = l.roll(l.ctx); err != nil {
			err = fmt.Errorf("everything is counted, but not all that is old was moved to coarser buckets, which weir serve or "+
				"weir downsample does as well: %w", err)
		}
	}
	l.cancel(nil)
	return l.Did(), err
}

package history

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// RetryingStore is a [Store] whose opening may fail and be tried again, as with a file that another process still
// locks. While it is not open, its methods return the error of the last Open. After the first Open they may be called
// by any number of goroutines.
type RetryingStore struct {
	open  func() (Store, error)
	log   *slog.Logger
	store atomic.Pointer[attempt]
}

var _ Store = (*RetryingStore)(nil)

// attempt is the result of an Open: a store, or a closed store and the error.
type attempt struct {
	Store
	err error
}

// NewRetryingStore makes a store that Open opens by calling open.
func NewRetryingStore(open func() (Store, error), log *slog.Logger) *RetryingStore {
	return &RetryingStore{open: open, log: log}
}

// Open opens the store, if it is not open. Call it before all other methods, and not concurrently.
func (r *RetryingStore) Open() {
	before := r.store.Load()
	if before != nil && before.err == nil {
		return
	}
	store, err := r.open()
	if err != nil {
		err = fmt.Errorf("the history is not open: %w", err)
		store = closed{err}
		if before == nil || before.err.Error() != err.Error() {
			r.log.Warn("the history cannot be opened", "error", err, "effect", "hits wait; opening is tried again every minute")
		}
	} else if before != nil {
		r.log.Info("the history is open")
	}
	r.store.Store(&attempt{store, err})
}

// Err returns why the store is not open, nil if it is.
func (r *RetryingStore) Err() error { return r.store.Load().err }

// Apply implements [Store].
func (r *RetryingStore) Apply(ctx context.Context, p Partition, b Batch) (ApplyResult, error) {
	return r.store.Load().Apply(ctx, p, b)
}

// Downsample implements [Store].
func (r *RetryingStore) Downsample(ctx context.Context, now time.Time) (DownsampleResult, error) {
	return r.store.Load().Downsample(ctx, now)
}

// Query implements [Store].
func (r *RetryingStore) Query(ctx context.Context, q Query, yield func(Series) error) error {
	return r.store.Load().Query(ctx, q, yield)
}

// WaitReplicated implements [Store].
func (r *RetryingStore) WaitReplicated(ctx context.Context) error {
	return r.store.Load().WaitReplicated(ctx)
}

// Close closes the store, if it is open.
func (r *RetryingStore) Close() error { return r.store.Load().Close() }

// closed is a store that could not be opened.
type closed struct{ err error }

func (c closed) Apply(context.Context, Partition, Batch) (ApplyResult, error) {
	return ApplyResult{}, c.err
}
func (c closed) Downsample(context.Context, time.Time) (DownsampleResult, error) {
	return DownsampleResult{}, c.err
}
func (c closed) Query(context.Context, Query, func(Series) error) error { return c.err }
func (c closed) WaitReplicated(context.Context) error                   { return c.err }
func (c closed) Close() error                                           { return nil }

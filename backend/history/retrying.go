package history

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// RetryingStore is a [Store] that can be opened later, such as a file that another process still locks. Until then all its
// methods fail with the reason. After the first Open they may be called by any number of goroutines.
type RetryingStore struct {
	open  func() (Store, error)
	log   *slog.Logger
	store atomic.Pointer[attempt]
}

var _ Store = (*RetryingStore)(nil)

// attempt is a store, or one that is closed and why.
type attempt struct {
	Store
	err error
}

// NewRetryingStore makes a store of what open returns. It is not open.
func NewRetryingStore(open func() (Store, error), log *slog.Logger) *RetryingStore {
	return &RetryingStore{open: open, log: log}
}

// Open opens the store, if it is not open. It comes before all other methods, and is for one goroutine at a time.
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
			r.log.Warn("the history cannot be opened; hits wait, and it is tried again every minute", "error", err)
		}
	} else if before != nil {
		r.log.Info("the history is open")
	}
	r.store.Store(&attempt{store, err})
}

// Err returns why the store is not open, nil if it is.
func (r *RetryingStore) Err() error { return r.store.Load().err }

// Apply is the store's.
func (r *RetryingStore) Apply(ctx context.Context, p Partition, b Batch) (ApplyResult, error) {
	return r.store.Load().Apply(ctx, p, b)
}

// Downsample is the store's.
func (r *RetryingStore) Downsample(ctx context.Context, now time.Time) (DownsampleResult, error) {
	return r.store.Load().Downsample(ctx, now)
}

// Query is the store's.
func (r *RetryingStore) Query(ctx context.Context, q Query, yield func(Series) error) error {
	return r.store.Load().Query(ctx, q, yield)
}

// WaitReplicated is the store's.
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

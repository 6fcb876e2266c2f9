package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// closingStore is a history.Store that is closed in the end.
type closingStore interface {
	history.Store
	Close() error
}

// openServedHistory opens the store that weir serve keeps its history in: Redis, or a file in DATA_DIR. Where no file can be
// written, the history is in memory, with a warning. A file that another process has, or that is not as weir writes it,
// is an error: that process may end, and someone may move the file.
func openServedHistory(set *settings.Settings, log *slog.Logger) (closingStore, error) {
	if set.HistoryInRedis() {
		return redishistory.Open(set.RedisHistory(log))
	}
	c := filehistory.Config{Dir: set.DataDir, Keep: set.History.Keep()}
	if c.Dir == "" {
		return filehistory.InMemory(c)
	}
	store, err := filehistory.Open(c)
	switch {
	case err == nil:
		return store, nil
	case errors.Is(err, filehistory.ErrInUse), errors.Is(err, filehistory.ErrDamaged), errors.Is(err, filehistory.ErrFormat):
		return nil, err
	}
	log.Warn("DATA_DIR cannot hold the history: it is kept in memory, and is lost when this process ends", "error", err)
	return filehistory.InMemory(c)
}

// openRetry is how long after a failure a store is opened again.
const openRetry = time.Minute

// lateStore is a history.Store that may not be open yet. Until it is, all its methods fail with the reason.
type lateStore struct {
	open func() (closingStore, error)
	log  *slog.Logger
	last atomic.Pointer[opening]
}

// opening is what came of opening a store.
type opening struct {
	store closingStore
	err   error
}

// try opens the store, if it is not open. It comes before all other methods, and is for one goroutine at a time.
func (s *lateStore) try() {
	before := s.last.Load()
	if before != nil && before.err == nil {
		return
	}
	store, err := s.open()
	if err != nil {
		err = fmt.Errorf("the history is not open: %w", err)
		if before == nil || before.err.Error() != err.Error() {
			s.log.Warn("the history cannot be opened; hits wait, and it is tried again every minute", "error", err)
		}
	} else if before != nil {
		s.log.Info("the history is open")
	}
	s.last.Store(&opening{store, err})
}

// keepTrying opens the store as soon as it can be opened, or ctx ends.
func (s *lateStore) keepTrying(ctx context.Context) {
	for s.err() != nil && wait.For(ctx, openRetry) {
		s.try()
	}
}

// err returns why the store is not open, nil if it is.
func (s *lateStore) err() error { return s.last.Load().err }

// Apply implements history.Store.
func (s *lateStore) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.Receipt, error) {
	if err := s.err(); err != nil {
		return history.Receipt{}, err
	}
	return s.last.Load().store.Apply(ctx, p, b)
}

// Roll implements history.Store.
func (s *lateStore) Roll(ctx context.Context, job history.Job) (history.Rolled, error) {
	if err := s.err(); err != nil {
		return history.Rolled{}, err
	}
	return s.last.Load().store.Roll(ctx, job)
}

// Query implements history.Store.
func (s *lateStore) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.last.Load().store.Query(ctx, q, yield)
}

func (s *lateStore) close() error {
	if s.err() != nil {
		return nil
	}
	return s.last.Load().store.Close()
}

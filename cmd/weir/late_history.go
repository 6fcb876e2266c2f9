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

// lateStore is a history.Store that may not be open yet. Until it is, all its methods fail with the reason.
type lateStore struct {
	open   func() (closingStore, error)
	log    *slog.Logger
	opened atomic.Pointer[closingStore]
	why    atomic.Pointer[error]
}

// openRetry is how long after a failure a store is opened again.
const openRetry = time.Minute

// try opens the store, if it is not open. It is for one goroutine at a time.
func (s *lateStore) try() {
	if s.opened.Load() != nil {
		return
	}
	store, err := s.open()
	if err == nil {
		s.opened.Store(&store)
		if s.why.Load() != nil {
			s.log.Info("the history is open")
		}
		return
	}
	err = fmt.Errorf("the history is not open: %w", err)
	if before := s.why.Load(); before == nil || (*before).Error() != err.Error() {
		s.log.Warn("the history cannot be opened; hits wait, and it is tried again every minute", "error", err)
	}
	s.why.Store(&err)
}

// keepTrying opens the store as soon as it can be opened, or ctx ends.
func (s *lateStore) keepTrying(ctx context.Context) {
	for s.opened.Load() == nil && wait.For(ctx, openRetry) {
		s.try()
	}
}

func (s *lateStore) store() (history.Store, error) {
	if store := s.opened.Load(); store != nil {
		return *store, nil
	}
	if why := s.why.Load(); why != nil {
		return nil, *why
	}
	return nil, errors.New("the history is not open yet")
}

// Apply implements history.Store.
func (s *lateStore) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.Receipt, error) {
	store, err := s.store()
	if err != nil {
		return history.Receipt{}, err
	}
	return store.Apply(ctx, p, b)
}

// Roll implements history.Store.
func (s *lateStore) Roll(ctx context.Context, job history.Job) (history.Rolled, error) {
	store, err := s.store()
	if err != nil {
		return history.Rolled{}, err
	}
	return store.Roll(ctx, job)
}

// Query implements history.Store.
func (s *lateStore) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	store, err := s.store()
	if err != nil {
		return err
	}
	return store.Query(ctx, q, yield)
}

func (s *lateStore) close() error {
	if store := s.opened.Load(); store != nil {
		return (*store).Close()
	}
	return nil
}

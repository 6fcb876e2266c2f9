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
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

// servedStore is a history.Store that is closed in the end.
type servedStore interface {
	history.Store
	Close() error
}

// openServedHistory opens what weir serve keeps its history in: Redis, a file in DATA_DIR, or else memory. A file that is
// in use or damaged is an error: its process may end, and someone may move it.
func openServedHistory(set *config.Settings, log *slog.Logger) (servedStore, error) {
	if set.HistoryInRedis() {
		c, err := set.RedisHistory(log)
		if err != nil {
			return nil, err
		}
		return redishistory.Open(c)
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

const reopenInterval = time.Minute

// reopeningStore is a history.Store that may not be open yet. Until it is, all its methods fail with the reason.
type reopeningStore struct {
	open   func() (servedStore, error)
	log    *slog.Logger
	opened atomic.Pointer[openedStore]
}

// openedStore is a store, or why it could not be opened.
type openedStore struct {
	servedStore
	err error
}

// try opens the store, if it is not open. It comes before all other methods, and is for one goroutine at a time.
func (s *reopeningStore) try() {
	before := s.opened.Load()
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
	s.opened.Store(&openedStore{store, err})
}

// reopen opens the store as soon as it can be opened, or ctx ends.
func (s *reopeningStore) reopen(ctx context.Context) {
	for s.err() != nil && wait.For(ctx, reopenInterval) {
		s.try()
	}
}

// err returns why the store is not open, nil if it is.
func (s *reopeningStore) err() error { return s.opened.Load().err }

func (s *reopeningStore) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	store := s.opened.Load()
	if store.err != nil {
		return history.ApplyResult{}, store.err
	}
	return store.Apply(ctx, p, b)
}

func (s *reopeningStore) Roll(ctx context.Context, job history.Job) (history.RollResult, error) {
	store := s.opened.Load()
	if store.err != nil {
		return history.RollResult{}, store.err
	}
	return store.Roll(ctx, job)
}

func (s *reopeningStore) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	store := s.opened.Load()
	if store.err != nil {
		return store.err
	}
	return store.Query(ctx, q, yield)
}

// settle waits until no failover of a history in Redis can forget what it has acknowledged.
func (s *reopeningStore) settle(ctx context.Context) error {
	store := s.opened.Load()
	if servers, are := store.servedStore.(*redishistory.Store); are {
		return servers.Settle(ctx)
	}
	return store.err
}

func (s *reopeningStore) close() error {
	if store := s.opened.Load(); store.err == nil {
		return store.Close()
	}
	return nil
}

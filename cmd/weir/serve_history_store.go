package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/wait"
)

const reopenInterval = time.Minute

// reopeningStore is a history.Store that may not be open yet. Until it is, all its methods fail with the reason.
type reopeningStore struct {
	set    *config.Settings
	log    *slog.Logger
	opened atomic.Pointer[openedStore]
}

// openedStore is a store, or why it could not be opened.
type openedStore struct {
	historycmd.Store
	err error
}

// try opens the store, if it is not open. It comes before all other methods, and is for one goroutine at a time.
func (s *reopeningStore) try() {
	before := s.opened.Load()
	if before != nil && before.err == nil {
		return
	}
	store, err := historycmd.Open(s.set, s.log)
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

func (s *reopeningStore) Roll(ctx context.Context, now time.Time) (history.RollResult, error) {
	store := s.opened.Load()
	if store.err != nil {
		return history.RollResult{}, store.err
	}
	return store.Roll(ctx, now)
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
	if servers, are := store.Store.(*redishistory.Store); are {
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

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
	"github.com/weirproxy/weir/backend/history/filehistory"
	"github.com/weirproxy/weir/backend/history/query"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
	"github.com/weirproxy/weir/server/stats"
)

const (
	lastFlush          = 5 * time.Second // bounds how long the end of the process waits for the last hits to be stored
	downsampleInterval = 5 * time.Minute // minutes become due by the hour
)

// measuring records hits, brings them to a store, and answers from there; without a history it records for /metrics.
type measuring struct {
	recorder   *hits.Recorder
	store      *lateStore       // nil without a history
	exporter   *export.Exporter // likewise
	downsample bool
	log        *slog.Logger
}

// newMeasuring opens the history, if there is to be one. That it cannot be opened is no error: the limiter goes on without.
// Whether a Redis answers is found out later, so what fails here for one are the variables that describe it.
func newMeasuring(set *settings.Settings, metrics *stats.Metrics, log *slog.Logger) (*measuring, error) {
	m := &measuring{recorder: hits.New(0), log: log}
	if set.KeepHistory {
		m.recorder = hits.New(hits.DefaultValues)
		m.store = &lateStore{open: func() (closingStore, error) { return openServedHistory(set, log) }, log: log}
		m.store.try()
		if err := m.store.err(); err != nil && set.HistoryInRedis() {
			return nil, fmt.Errorf("REDIS_HISTORY_URL, or else REDIS_URL: %w", err)
		}
		m.downsample = set.Downsamples()
		c := export.Config{Drain: m.recorder.Drain, Store: m.store, Log: log, Interval: set.History.FlushInterval}
		if set.HistoryInRedis() {
			c.Settle = m.store.settle
		}
		m.exporter = export.New(c)
		m.export(metrics)
	}
	metrics.Hits(m.recorder)
	return m, nil
}

// decideHistory turns off a history of envoyproxy/ratelimit's replacement that nobody asked for and DATA_DIR cannot hold,
// and tells in one line where there is one, or how to get one.
func decideHistory(as settings.Program, set *settings.Settings, log *slog.Logger) {
	if !as.Replaces() {
		return
	}
	const how = "REDIS_HISTORY_URL, or a DATA_DIR that can be written, turns it on"
	if set.KeepHistory && !set.HistoryAsked && !set.HistoryInRedis() {
		if err := tryToWrite(set.DataDir); err != nil {
			set.KeepHistory = false
			log.Warn("no history is kept, as DATA_DIR cannot be written; "+how, "error", err)
			return
		}
	}
	switch {
	case !set.KeepHistory && set.HistoryAsked:
		log.Info("no history is kept, as HISTORY says")
	case !set.KeepHistory:
		log.Log(context.Background(), set.StartLevel(), "no history is kept, as nobody asked for one; "+how)
	case set.HistoryVariable() != "":
		log.Info("a history is kept, in the Redis of " + set.HistoryVariable())
	case set.HistoryInRedis():
		log.Info("a history is kept, in the Redis of the counters, as HISTORY says")
	case set.DataDir != "":
		log.Info("a history is kept, in DATA_DIR", "folder", set.DataDir)
	default:
		log.Info("a history is kept in memory, as HISTORY says; DATA_DIR is not set, so it is lost when this process ends")
	}
}

// tryToWrite returns an error if no file can be made in a folder. It makes the folder.
func tryToWrite(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	trial, err := os.CreateTemp(dir, ".trial-*")
	if err != nil {
		return err
	}
	return errors.Join(trial.Close(), os.Remove(trial.Name()))
}

// api answers /api/v1/history; nil says that there is none.
func (m *measuring) api() *query.History {
	if m.store == nil {
		return nil
	}
	return query.New(m.store, time.Now)
}

// queries answers Prometheus's API; nil says that nothing does.
func (m *measuring) queries(set *settings.Settings, limiter *limit.Limiter, metrics *stats.Metrics, log *slog.Logger) http.Handler {
	if m.store == nil || !set.History.Query {
		return nil
	}
	rules := func() []*descriptors.Rule {
		if config := limiter.Config(); config != nil {
			return config.Rules()
		}
		return nil
	}
	bounds := set.History.Queries
	h := promql.NewHandler(promql.Config{
		Config: engine.Config{Store: m.store, Rules: rules, Now: time.Now, MaxSamples: bounds.MaxSamples, Timeout: bounds.Timeout, Log: log},
		Ready:  m.store.err, Version: buildVersion(), Concurrency: bounds.Concurrency,
	})
	h.Show(metrics)
	return h
}

func (m *measuring) run(ctx context.Context) {
	if m.store == nil {
		for wait.For(ctx, time.Minute) { // rules that are gone are forgotten by a drain
			m.recorder.Drain(time.Now(), func(history.ID, uint64) {})
		}
		return
	}
	var running sync.WaitGroup
	running.Go(func() { m.store.keepTrying(ctx) })
	if m.downsample {
		running.Go(func() { keepDownsampled(ctx, m.store, downsampleInterval, m.log) })
	}
	m.exporter.Run(ctx)
	running.Wait()
}

// close brings the last hits to the store, once nothing records any more. The end of kill cuts it short.
func (m *measuring) close(kill context.Context) error {
	if m.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(kill, lastFlush)
	defer cancel()
	if m.store.try(); m.store.err() != nil {
		cancel() // there is nothing to wait for
	}
	m.exporter.Close(ctx)
	return m.store.close()
}

// export shows in /metrics what becomes of hits on their way to the history.
func (m *measuring) export(metrics *stats.Metrics) {
	st := m.exporter.Stats
	for _, c := range []struct {
		name, help string
		total      func(export.Stats) uint64
	}{
		{"recorded_hits", "Hits for the history, of all series: a hit that is near its limit counts in two.",
			func(s export.Stats) uint64 { return s.Recorded }},
		{"landed_hits", "Of these, acknowledged by the store.", func(s export.Stats) uint64 { return s.Applied }},
		{"clamped_hits", "Of these, counted in an earlier minute than their own, as the store's clock is behind.",
			func(s export.Stats) uint64 { return s.Clamped }},
		{"refused_hits", "Hits that the store did not count, as their series is full.",
			func(s export.Stats) uint64 { return s.Refused }},
		{"lost_hits", "Hits that the store acknowledged and forgot, when it was too late to send them again, or that it never answered.",
			func(s export.Stats) uint64 { return s.Lost }},
		{"batches", "Batches that the store acknowledged.", func(s export.Stats) uint64 { return s.Batches }},
		{"resent_batches", "Batches sent again, as the store had acknowledged and forgotten them.",
			func(s export.Stats) uint64 { return s.Resent }},
		{"batch_errors", "Batches that the store gave no answer to; they are sent again.",
			func(s export.Stats) uint64 { return s.Errors }},
	} {
		metrics.Counter("weir_history_"+c.name+"_total", c.help, nil, func() float64 { return float64(c.total(st())) })
	}
	for r := range export.DropReasons {
		reason := export.DropReason(r)
		metrics.Counter("weir_history_dropped_hits_total", "Hits that were dropped before they were sent, by the reason.",
			map[string]string{"reason": reason.String()}, func() float64 { return float64(st().Dropped[reason]) })
	}
	metrics.Gauge("weir_history_waiting_cells", "Minutes of series that wait for the store's acknowledgement.", nil,
		func() float64 { return float64(st().Waiting) })
	metrics.Gauge("weir_history_oldest_waiting_seconds", "How long something has been waiting for it.", nil,
		func() float64 {
			if oldest := st().Oldest; !oldest.IsZero() {
				return time.Since(oldest).Seconds()
			}
			return 0
		})
	metrics.Gauge("weir_history_last_success_timestamp_seconds", "When the store last answered, in Unix seconds; 0 for never.", nil,
		func() float64 { return float64(max(0, st().LastSuccess.Unix())) })
	metrics.Gauge("weir_history_up", "1 if the history is open and stores hits, 0 if hits wait.", nil, func() float64 {
		if m.store.err() != nil || st().Down {
			return 0
		}
		return 1
	})
}

// closingStore is a history.Store that is closed in the end.
type closingStore interface {
	history.Store
	Close() error
}

// openServedHistory opens what weir serve keeps its history in: Redis, a file in DATA_DIR, or else memory. A file that is
// in use or damaged is an error: its process may end, and someone may move it.
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

const openRetry = time.Minute

// lateStore is a history.Store that may not be open yet. Until it is, all its methods fail with the reason.
type lateStore struct {
	open func() (closingStore, error)
	log  *slog.Logger
	last atomic.Pointer[opening]
}

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

func (s *lateStore) Apply(ctx context.Context, p history.Partition, b history.Batch) (history.ApplyResult, error) {
	if err := s.err(); err != nil {
		return history.ApplyResult{}, err
	}
	return s.last.Load().store.Apply(ctx, p, b)
}

func (s *lateStore) Roll(ctx context.Context, job history.Job) (history.RollResult, error) {
	if err := s.err(); err != nil {
		return history.RollResult{}, err
	}
	return s.last.Load().store.Roll(ctx, job)
}

func (s *lateStore) Query(ctx context.Context, q history.Query, yield func(history.Series) error) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.last.Load().store.Query(ctx, q, yield)
}

// settle waits until no failover of a history in Redis can forget what it has acknowledged.
func (s *lateStore) settle(ctx context.Context) error {
	if err := s.err(); err != nil {
		return err
	}
	if servers, are := s.last.Load().store.(*redishistory.Store); are {
		return servers.Settle(ctx)
	}
	return nil
}

func (s *lateStore) close() error {
	if s.err() != nil {
		return nil
	}
	return s.last.Load().store.Close()
}

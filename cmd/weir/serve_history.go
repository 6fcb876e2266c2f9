package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/export"
	"github.com/weirproxy/weir/backend/history/redishistory"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/historycmd"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	historyapi "github.com/weirproxy/weir/server/history"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
	"github.com/weirproxy/weir/server/stats"
)

const (
	lastFlush          = 5 * time.Second // timeout of storing the last hits at the end of the process
	downsampleInterval = 5 * time.Minute // minutes become old enough to downsample once an hour
	syncSeriesInterval = 10 * time.Minute
	reopenInterval     = time.Minute
)

// historyPipeline records hits, exports them to the history, and serves queries of it. Without a history it only records.
type historyPipeline struct {
	recorder   *hits.Recorder
	drain      func(now time.Time, emit func(id history.ID, hits uint64)) // Recorder.Drain, or that of OpenTelemetry's sink
	store      *history.RetryingStore                                     // nil without a history
	exporter   *export.Exporter                                           // nil without a history
	denials    *denialStore                                               // nil unless denials are stored in Redis
	downsample bool

	flushInterval time.Duration
	log           *slog.Logger
}

// newHistoryPipeline opens the history, if it is configured. If opening fails, the limiter works without a history.
// A Redis is not contacted yet: only its settings can fail here.
func newHistoryPipeline(settings *config.Settings, metrics *stats.Metrics, t *telemetry, log *slog.Logger) (*historyPipeline, error) {
	p := &historyPipeline{recorder: hits.New(0), log: log, flushInterval: settings.History.FlushInterval}
	if settings.KeepHistory || settings.SendsHits() {
		p.recorder = hits.New(settings.History.Values)
	}
	var err error
	if p.drain, err = t.openHits(p.recorder, metrics); err != nil {
		return nil, err
	}
	if settings.KeepHistory {
		open := func() (history.Store, error) { return historycmd.OpenFileOrMemory(settings, log) }
		if settings.HistoryInRedis() {
			redis, err := historycmd.OpenRedis(settings, log, false)
			if err != nil {
				return nil, fmt.Errorf("REDIS_HISTORY_URL, or else REDIS_URL: %w", err)
			}
			p.denials = &denialStore{store: redis, log: log}
			open = func() (history.Store, error) { return redis, nil }
		}
		p.store = history.NewRetryingStore(open, log)
		p.store.Open()
		p.downsample = settings.Downsamples()
		p.exporter = export.New(export.Config{Drain: p.drain, Store: tracedHistory{p.store, t.traces}, Log: log,
			Interval: settings.History.FlushInterval, Durable: !settings.HistoryInRedis()})
		p.registerMetrics(metrics)
	}
	metrics.RegisterHits(p.recorder)
	return p, nil
}

// api returns the handler of /api/v1/history, nil without a history.
func (p *historyPipeline) api() *historyapi.History {
	if p.store == nil {
		return nil
	}
	return historyapi.New(p.store, p.flushInterval, time.Now)
}

// queries returns the handler of Prometheus's API. If HISTORY_QUERY is off or there is no history, it names the variable to set.
func (p *historyPipeline) queries(settings *config.Settings, limiter *limit.Limiter, log *slog.Logger) http.Handler {
	switch {
	case p.store == nil:
		return promql.Off("this weir keeps no history: " + settings.HistoryRemedy())
	case !settings.History.Query:
		return promql.Off("this weir answers no queries of its history: set HISTORY_QUERY=true")
	}
	rules := func() []*descriptors.Rule { return limiter.Config().Rules() }
	return promql.NewHandler(promql.Config{
		Config: engine.Config{Store: p.store, Rules: rules, Now: time.Now, Log: log,
			MaxSamples: settings.History.QueryMaxSamples, Timeout: settings.History.QueryTimeout},
		Version: buildVersion(), Concurrency: settings.History.QueryConcurrency,
	})
}

func (p *historyPipeline) run(ctx context.Context) {
	if p.store == nil {
		for wait.For(ctx, time.Minute) { // draining deletes removed rules
			p.drain(time.Now(), func(history.ID, uint64) {})
		}
		return
	}
	var running sync.WaitGroup
	running.Go(func() {
		for p.store.Err() != nil && wait.For(ctx, reopenInterval) {
			p.store.Open()
		}
	})
	running.Go(func() {
		for ok := true; ok; ok = wait.For(ctx, p.flushInterval) {
			p.denials.flush(ctx, time.Now().Add(-lateDenial))
		}
	})
	p.syncSeries(context.WithoutCancel(ctx)) // before the first flush, which may also be the last
	running.Go(func() {
		for wait.For(ctx, syncSeriesInterval) {
			p.syncSeries(ctx)
		}
	})
	if p.downsample {
		running.Go(func() { downsamplePeriodically(ctx, p.store, downsampleInterval, p.log) })
	}
	p.exporter.Run(ctx)
	running.Wait()
}

// syncSeries tells the recorder which series the history has, so that all replicas, restarted ones too, together add no
// more series of values than HISTORY_VALUES allows. If the store does not answer, nothing changes.
func (p *historyPipeline) syncSeries(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, lastFlush)
	defer cancel()
	var fine []history.ID
	err := p.store.Query(bounded, history.Query{}, func(s history.Series) error {
		if s.Fine {
			fine = append(fine, s.ID)
		}
		return nil
	})
	if err == nil {
		p.recorder.SyncSeries(fine)
	} else if ctx.Err() == nil && p.store.Err() == nil {
		p.log.Warn("listing the series of the history failed: rules may exceed HISTORY_VALUES", "error", err)
	}
}

// close stores the last hits. Call it when nothing records any more. kill ends it early.
func (p *historyPipeline) close(kill context.Context) error {
	if p.store == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(kill, lastFlush)
	defer cancel()
	if p.store.Open(); p.store.Err() != nil {
		cancel() // there is nothing to flush
	}
	p.exporter.Close(ctx)
	p.denials.flush(ctx, time.Unix(math.MaxInt32, 0))
	return p.store.Close()
}

// exportTotals are the counters of hits on their way to the history.
var exportTotals = []total[export.Stats]{
	{"weir_history_recorded_hits_total", "Hits for the history, in all series. A hit near its limit counts in two series.",
		func(s export.Stats) uint64 { return s.Recorded }},
	{"weir_history_landed_hits_total", "Hits for the history that the store has acknowledged.",
		func(s export.Stats) uint64 { return s.Applied }},
	{"weir_history_refused_hits_total", "Hits that the store did not count because their series was full.",
		func(s export.Stats) uint64 { return s.Refused }},
	{"weir_history_lost_hits_total", "Hits that the store acknowledged and forgot, when it was too late to send them again, " +
		"or that it never answered.", func(s export.Stats) uint64 { return s.Lost }},
}

// registerMetrics registers the metrics of the pipeline.
func (p *historyPipeline) registerMetrics(metrics *stats.Metrics) {
	st := p.exporter.Stats
	registerTotals(metrics, nil, st, exportTotals)
	for r := range export.DropReasons {
		reason := export.DropReason(r)
		metrics.RegisterCounter("weir_history_dropped_hits_total", "Hits that were dropped before they were sent, by reason.",
			map[string]string{"reason": reason.String()}, func() float64 { return float64(st().Dropped[reason]) })
	}
	metrics.RegisterGauge("weir_history_waiting_cells", "Minutes of series that wait for the store's acknowledgement.", nil,
		func() float64 { return float64(st().Waiting) })
	metrics.RegisterGauge("weir_history_up", "1 if the history is open and stores hits, 0 if hits wait.", nil, func() float64 {
		if p.store.Err() != nil || st().Down {
			return 0
		}
		return 1
	})
	if p.denials != nil { // in Redis
		registerPlacement(p.denials.store.Placement, metrics)
	}
}

// registerPlacement registers metrics of the ring nodes that have the history, and of the progress of a move.
func registerPlacement(at func() redishistory.Placement, metrics *stats.Metrics) {
	metrics.RegisterGauges("weir_history_partitions", "Partitions of the history by the node of the ring that has them. "+
		"Without a ring the node is empty.", "node", func() map[string]int { return at().Nodes })
	metrics.RegisterGauge("weir_history_partitions_to_move", "Partitions that a move has yet to bring to their nodes, 0 once it has ended.",
		nil, func() float64 { return float64(at().Left) })
	registerTotals(metrics, nil, at, []total[redishistory.Placement]{
		{"weir_history_moved_bytes_total", "Bytes of partitions that moves have copied, ever.",
			func(p redishistory.Placement) uint64 { return p.MovedBytes }},
		{"weir_history_moves_followed_total", "How often weir asked the node that a partition had left, and followed it to its new node.",
			func(p redishistory.Placement) uint64 { return p.Followed }},
	})
}

// downsamplePeriodically downsamples the history until ctx ends, and logs the results. The interval has jitter, so that
// replicas that started together do not downsample at the same time.
func downsamplePeriodically(ctx context.Context, store history.Store, interval time.Duration, log *slog.Logger) {
	for wait.For(ctx, interval/2+rand.N(interval)) {
		begin := time.Now()
		done, err := store.Downsample(ctx, begin)
		log := log.With("series", done.Series, "chunks", done.Chunks, "points", done.Points,
			"expired", done.Expired, "took", time.Since(begin).Round(time.Millisecond).String())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("downsampling the history failed; the next run tries again", "error", err)
		case done.Chunks > 0:
			log.Info("downsampled the history")
		}
	}
}

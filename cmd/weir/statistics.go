package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/ratelimit"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
	"github.com/weirproxy/weir/server/ratelimit/statsd"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

// statistics exports envoyproxy/ratelimit's statistics to Prometheus, statsd and DogStatsD, as far as they are configured.
type statistics struct {
	source      *ratelimit.Statistics
	asRatelimit bool           // hits are also counted by that program's arithmetic
	metrics     *stats.Metrics // weir's own
	port        *server.Port   // Prometheus's port, may be nil
	calls       [ratelimit.Methods]atomic.Uint64
	timers      []func(ratelimit.Method, time.Duration) // called with the time of each call
	sinks       []func(ctx context.Context)             // run until close
	log         *slog.Logger

	stop    context.CancelFunc
	running sync.WaitGroup
}

// openStatistics prepares the statistics, and opens Prometheus's port if it is configured. Call it before the recorder is used.
func openStatistics(settings *config.Settings, metrics *stats.Metrics, recorder *hits.Recorder, store *counterStore,
	log *slog.Logger) (*statistics, error) {
	s := &statistics{metrics: metrics, log: log, asRatelimit: settings.CountsAsRatelimit(),
		source: &ratelimit.Statistics{Requests: metrics.Requests, ConfigLoads: metrics.ConfigLoads}}
	if s.asRatelimit {
		recorder.Ratelimit = rulestats.New(settings.MetricsWithoutDots)
	}
	s.source.Rules, s.source.Calls = recorder.Ratelimit, func(m ratelimit.Method) uint64 { return s.calls[m].Load() }
	addStoreStatistics(s.source, store, settings.LocalCacheSize > 0)
	for _, c := range settings.StatsdSinks() {
		c.Statistics, c.Log = s.source, log
		sender := statsd.New(c)
		s.timers, s.sinks = append(s.timers, sender.Observe), append(s.sinks, sender.Run)
	}
	if settings.DisableStats || !settings.UsePrometheus {
		return s, nil
	}
	err := s.openPrometheus(settings)
	if err != nil && settings.OptionalSinks {
		log.Error("Prometheus cannot read the statistics", "error", err)
		err = nil
	}
	return s, err
}

// openPrometheus opens Prometheus's port. If sinks are optional, the default mapping replaces a wrong one.
func (s *statistics) openPrometheus(settings *config.Settings) error {
	c := ratelimit.PrometheusConfig{Labels: settings.ExtraTags, Statistics: s.source, Log: s.log}
	var exporter *ratelimit.Prometheus
	var err error
	if c.Mapping, err = settings.PrometheusMapping(s.log); err == nil {
		if exporter, err = ratelimit.NewPrometheus(c); err != nil {
			err = fmt.Errorf("environment variable PROMETHEUS_MAPPER_YAML=%q: %w", settings.PrometheusMapper, err)
		}
	}
	if err != nil && settings.OptionalSinks {
		s.log.Error("PROMETHEUS_MAPPER_YAML cannot be used", "error", err, "effect", "the default mapping is used")
		c.Mapping = ratelimit.DefaultMapping(settings.PrometheusMilliseconds)
		exporter, err = ratelimit.NewPrometheus(c)
	}
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/"+strings.TrimPrefix(settings.PrometheusPath, "/"), exporter.Handler())
	if s.port, err = server.OpenPort("Prometheus", settings.PrometheusAddress, s.log, mux); err != nil {
		return fmt.Errorf("environment variable PROMETHEUS_ADDR=%q: %w", settings.PrometheusAddress, err)
	}
	s.timers, s.sinks = append(s.timers, exporter.Observe), append(s.sinks, func(ctx context.Context) {
		s.log.Info("listening for Prometheus", "address", s.port.Address())
		if err := s.port.Run(ctx, time.Second); err != nil { // the time for open scrapes
			s.log.Error("Prometheus cannot read the statistics any more", "error", err)
		}
	})
	return nil
}

// addStoreStatistics adds statistics of connections to Redis and, if cached, of the deny cache.
func addStoreStatistics(c *ratelimit.Statistics, store *counterStore, cached bool) {
	c.Gauges, c.Counters = make(map[string]func() uint64), make(map[string]func() uint64)
	for name, pool := range store.pools {
		name = "ratelimit." + name
		c.Gauges[name+".cx_active"] = pool.Open
		c.Counters[name+".cx_total"] = pool.Opened.Load
		c.Counters[name+".cx_local_close"] = pool.Closed.Load
	}
	g := store.guard
	if g == nil || !cached {
		return
	}
	const cache = "ratelimit.localcache."
	c.Gauges[cache+"entryCount"] = func() uint64 { return uint64(g.Stats().DenyCacheKeys) }
	c.Gauges[cache+"lookupCount"] = func() uint64 { return g.Stats().DenyCacheLookups }
	c.Gauges[cache+"hitCount"] = func() uint64 { return g.Stats().DenyCacheHits }
	c.Gauges[cache+"missCount"] = func() uint64 {
		st := g.Stats()
		return st.DenyCacheLookups - min(st.DenyCacheLookups, st.DenyCacheHits)
	}
}

// observe counts a request. As in envoyproxy/ratelimit, a JSON request does not count as a call.
func (s *statistics) observe(a rls.AnsweredRequest) {
	s.metrics.Observe(a.Result, a.Took)
	if !a.JSON {
		s.countCall(ratelimit.ShouldRateLimit, a.Took)
	}
}

// countHealthCheck counts a health check over gRPC.
func (s *statistics) countHealthCheck(took time.Duration) { s.countCall(ratelimit.Check, took) }

// countCall counts a call, and passes its duration to the timers.
func (s *statistics) countCall(m ratelimit.Method, took time.Duration) {
	s.calls[m].Add(1)
	for _, timer := range s.timers {
		timer(m, took)
	}
}

// textHandler serves the statistics as text. It is nil unless hits are counted by envoyproxy/ratelimit's arithmetic.
func (s *statistics) textHandler() http.Handler {
	if !s.asRatelimit {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.source.WriteText(w) // the client is gone if this fails
	})
}

// run runs the sinks and the port until close.
func (s *statistics) run() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for _, sink := range s.sinks {
		s.running.Go(func() { sink(ctx) })
	}
}

// close makes the sinks send a last time, and closes the port. Call it after run, when nothing counts any more.
func (s *statistics) close() {
	s.stop()
	s.running.Wait()
}

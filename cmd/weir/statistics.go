package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
	"github.com/weirproxy/weir/server/stats/mapped"
	"github.com/weirproxy/weir/server/stats/ratelimit"
	"github.com/weirproxy/weir/server/stats/statsd"
)

// lastScrape bounds how long the end of the process waits for a scrape that is under way.
const lastScrape = time.Second

// statistics are envoyproxy/ratelimit's, and where they go: to Prometheus, statsd and DogStatsD, or nowhere.
type statistics struct {
	all     *ratelimit.Statistics
	counted bool           // hits are, too: by that program's arithmetic
	metrics *stats.Metrics // weir's own
	shown   *mapped.Metrics
	port    *mapped.Port // nil unless Prometheus reads them
	senders []*statsd.Sender
	log     *slog.Logger

	stop    context.CancelFunc
	running sync.WaitGroup
}

// openStatistics opens Prometheus's port, if it is to read the statistics. It comes before the recorder is used.
func openStatistics(set *config.Settings, metrics *stats.Metrics, recorder *hits.Recorder, store *counters,
	log *slog.Logger) (*statistics, error) {
	s := &statistics{metrics: metrics, log: log, counted: set.KeepsTallies()}
	if s.counted {
		recorder.KeepTallies()
	}
	s.all = &ratelimit.Statistics{Recorder: recorder, Requests: metrics.Requests, ConfigLoads: metrics.ConfigLoads}
	ofStore(s.all, store, set.LocalCacheSize > 0)
	for _, c := range set.StatsdSinks() {
		c.Statistics, c.Log = s.all, log
		s.senders = append(s.senders, statsd.New(c))
	}
	if set.DisableStats || !set.UsePrometheus {
		return s, nil
	}
	return s, s.showPrometheus(set)
}

// showPrometheus opens Prometheus's port. Where sinks are optional, a port or a mapping that it cannot have is logged.
func (s *statistics) showPrometheus(set *config.Settings) error {
	config := mapped.Config{Labels: set.ExtraTags, Statistics: s.all, Log: s.log}
	var err error
	if config.Mapping, err = set.PrometheusMapping(s.log); err == nil {
		if s.shown, err = mapped.New(config); err != nil {
			err = fmt.Errorf("environment variable PROMETHEUS_MAPPER_YAML=%q: %w", set.PrometheusMapper, err)
		}
	}
	if err != nil && set.OptionalSinks {
		s.log.Error("the default mapping of statistics holds", "error", err)
		config.Mapping = mapped.DefaultMapping(set.PrometheusMilliseconds)
		s.shown, err = mapped.New(config)
	}
	if err != nil {
		return err
	}
	if s.port, err = mapped.Listen(set.PrometheusAddress, set.PrometheusPath, s.shown.Handler()); err != nil {
		err = fmt.Errorf("environment variable PROMETHEUS_ADDR=%q: %w", set.PrometheusAddress, err)
		if !set.OptionalSinks {
			return err
		}
		s.log.Error("Prometheus cannot read the statistics", "error", err)
	}
	return nil
}

// ofStore adds the statistics of the store: of connections to Redis and, where there is a local cache, of the denials that
// are kept.
func ofStore(c *ratelimit.Statistics, store *counters, cached bool) {
	c.Gauges, c.Counters = make(map[string]func() uint64), make(map[string]func() uint64)
	for name, pool := range store.pools {
		name = "ratelimit." + name
		c.Gauges[name+".cx_active"] = pool.Open
		c.Counters[name+".cx_total"] = pool.Opened.Load
		c.Counters[name+".cx_local_close"] = pool.Closed.Load
	}
	g, is := store.Counter.(*guard.Guard)
	if !is || !cached {
		return
	}
	const cache = "ratelimit.localcache."
	c.Gauges[cache+"entryCount"] = func() uint64 { return uint64(g.Stats().Keys) }
	c.Gauges[cache+"lookupCount"] = func() uint64 { return g.Stats().Looked }
	c.Gauges[cache+"hitCount"] = func() uint64 { return g.Stats().Spared }
	c.Gauges[cache+"missCount"] = func() uint64 {
		st := g.Stats()
		return st.Looked - min(st.Looked, st.Spared)
	}
}

// observer is told of each request.
func (s *statistics) observer() rls.Observer {
	o := timed{Metrics: s.metrics}
	if s.port != nil {
		o.took = append(o.took, s.shown.Took)
	}
	for _, sender := range s.senders {
		o.took = append(o.took, sender.Took)
	}
	if len(o.took) == 0 {
		return s.metrics
	}
	return o
}

// timed is an observer of requests that times them for sinks as well.
type timed struct {
	*stats.Metrics
	took []func(time.Duration)
}

func (t timed) Observe(o limit.Outcome, took time.Duration) {
	t.Metrics.Observe(o, took)
	for _, note := range t.took {
		note(took)
	}
}

// text serves them, a line each; it is nil where hits are not counted as there.
func (s *statistics) text() http.Handler {
	if !s.counted {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.all.WriteText(w) // the client is gone if this fails
	})
}

// run sends and shows the statistics until close.
func (s *statistics) run() {
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	for _, sender := range s.senders {
		s.running.Go(func() { sender.Run(ctx) })
	}
	if s.port != nil {
		s.log.Info("listening for Prometheus", "address", s.port.Address())
		s.running.Go(func() {
			if err := s.port.Serve(); err != nil {
				s.log.Error("Prometheus cannot read the statistics any more", "error", err)
			}
		})
	}
}

// close sends a last time, and closes the port. It comes when nothing is counted any more; the end of kill cuts it short.
func (s *statistics) close(kill context.Context) error {
	if s.stop != nil {
		s.stop()
	}
	var err error
	if s.port != nil {
		ctx, cancel := context.WithTimeout(kill, lastScrape)
		defer cancel()
		err = s.port.Close(ctx)
	}
	s.running.Wait()
	return err
}

package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/stats"
)

// counterStore is the store of the counters. Requests use the embedded Store.
type counterStore struct {
	backend.Store
	replicas func() int                       // number of replicas that share the counters, at least 1
	shared   backend.Shared                   // the store behind the guard; nil in memory
	guard    *guard.Guard                     // nil in memory
	kind     string                           // Redis or memcached
	pools    map[string]*topology.Connections // of each Redis, by its name in envoyproxy/ratelimit's statistics
	warning  func() string                    // see admin.Parts; may be nil
}

// openStore opens the store that BACKEND_TYPE names.
func openStore(settings *config.Settings, metrics *stats.Metrics, t *telemetry, log *slog.Logger) (*counterStore, error) {
	switch settings.BackendType {
	case "redis":
		return openRedis(settings, metrics, t.traces.ExchangeTracer("redis"), log)
	case "memcache":
		return openMemcached(settings, metrics, t.traces.ExchangeTracer("memcached"), log)
	}
	store := memory.Open(memory.Config{MaxKeys: settings.MemoryMaxKeys, Dir: settings.DataDir, SaveEvery: settings.DataSaveInterval, Log: log})
	metrics.RegisterGauge("weir_memory_keys", "Keys that are counted in memory.", nil,
		func() float64 { return float64(store.Stats().Keys) })
	const evicted = "Keys evicted from memory to make room, by state: open keys had hits left (their count is lost); keys over their limit are evicted only if 512 others are over."
	metrics.RegisterCounter("weir_memory_evicted_keys_total", evicted, map[string]string{"state": "open"},
		func() float64 { return float64(store.Stats().EvictedOpen) })
	metrics.RegisterCounter("weir_memory_evicted_keys_total", evicted, map[string]string{"state": "over"},
		func() float64 { return float64(store.Stats().EvictedOver) })
	return &counterStore{Store: store, replicas: func() int { return 1 }}, nil
}

// maxLocalKeys bounds the keys that this process counts while the store is away: some 27 MB.
const maxLocalKeys = 100_000

// guardStore wraps a store that may be away in a guard, and registers the guard's metrics.
func guardStore(store backend.Shared, kind string, pools map[string]*topology.Connections, settings *config.Settings,
	metrics *stats.Metrics, log *slog.Logger) *counterStore {
	replicas := func() int { // by presence; at least the configured number until all replicas had time to announce theirs
		alive, all := store.Replicas()
		if all {
			return alive
		}
		return max(alive, settings.Replicas)
	}
	g := guard.New(store, guard.Config{
		Policy: settings.OnFailure, Replicas: replicas, FixedWindowBytes: settings.LocalCacheSize,
		Leases: settings.CanLease(),
		Local:  memory.Open(memory.Config{MaxKeys: maxLocalKeys, Log: log}),
	})
	metrics.RegisterCounter("weir_deny_cache_denials_total", "Checks denied without asking the store, which had denied them within the last second.",
		nil, func() float64 { return float64(g.Stats().DenyCacheHits) })
	registerTotals(metrics, nil, g.Stats, leaseTotals)
	metrics.RegisterGauge("weir_replicas", "Processes of weir that share the counters. The failure policy local divides limits by this number.", nil,
		func() float64 { return float64(replicas()) })
	return &counterStore{Store: g, replicas: replicas, shared: store, guard: g, kind: kind, pools: pools}
}

// leaseTotals are the counters of hits that Redis leases to this process.
var leaseTotals = []total[guard.Stats]{
	{"weir_leases_total", "Leases that Redis has granted. A lease is a number of hits of a busy key.", func(s guard.Stats) uint64 { return s.Leases }},
	{"weir_lease_hits_granted_total", "Hits of leases that Redis has granted.", func(s guard.Stats) uint64 { return s.LeaseGranted }},
	{"weir_lease_hits_used_total", "Hits of leases that were admitted without asking Redis.",
		func(s guard.Stats) uint64 { return s.LeaseUsed }},
	{"weir_lease_hits_returned_total", "Unused hits of leases that were given back.",
		func(s guard.Stats) uint64 { return s.LeaseReturned }},
	{"weir_lease_hits_lapsed_total", "Unused hits of leases that were not given back: they count until their window ends.",
		func(s guard.Stats) uint64 { return s.LeaseLapsed }},
}

// total is a counter in /metrics whose value is read from a snapshot S of statistics.
type total[S any] struct {
	name, help string
	value      func(S) uint64
}

// registerTotals registers counters. Each scrape calls statistics for each of them.
func registerTotals[S any](metrics *stats.Metrics, labels map[string]string, statistics func() S, all []total[S]) {
	for _, t := range all {
		metrics.RegisterCounter(t.name, t.help, labels, func() float64 { return float64(t.value(statistics())) })
	}
}

// registerServers registers a gauge of how many servers of a store are in each state.
func registerServers(store backend.Health, name string, labels map[string]string, metrics *stats.Metrics) {
	for i := range backend.ServerStates {
		state, all := backend.ServerState(i), map[string]string{"state": backend.ServerState(i).String()}
		maps.Copy(all, labels)
		metrics.RegisterGauge(name, serversHelp, all, func() (n float64) {
			for _, s := range store.Servers() {
				if s == state {
					n++
				}
			}
			return n
		})
	}
}

const serversHelp = "Servers of the counters by state: up, away (they do not answer, or too late, or have not answered yet) " +
	"or failing (they answer that they cannot count)."

// awaitReady waits until the servers have answered once. It returns an error if Redis does not answer in time.
func (c *counterStore) awaitReady(ctx context.Context) error {
	if c.shared == nil {
		return nil
	}
	if err := c.shared.Await(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("redis could not count within REDIS_STARTUP_MAX_ELAPSED_TIME: %w", err)
	}
	return nil
}

// reportHealth updates health with the state of the store, until ctx ends.
func (c *counterStore) reportHealth(ctx context.Context, h *server.Health) {
	changed := make(chan struct{}, 1)
	c.shared.Notify(changed)
	for {
		h.SetStoreAway(c.shared.ProbeErr() != nil)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

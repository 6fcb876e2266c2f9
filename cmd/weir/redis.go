package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/stats"
)

// counters are where weir counts. What decides many requests asks the Store, without a step in between.
type counters struct {
	guard.Store
	remote remote                           // the same, where the counts are on servers; else nil
	kind   string                           // what the servers are: Redis or memcached
	pools  map[string]*topology.Connections // of each Redis, by what envoyproxy/ratelimit's statistics call it
}

// remote is a store on servers: their health, and the replicas that share them.
type remote interface {
	backend.Health
	backend.Replicas
}

// openRedis opens the Redis that the variables name, one, or one more for limits per second, behind a guard.
func openRedis(set *config.Settings, metrics *stats.Metrics, log *slog.Logger) (*counters, error) {
	servers := metrics.Redis()
	main, mainPool, err := openOne(set, &set.Redis, "main", metrics, servers, log)
	if err != nil {
		return nil, fmt.Errorf("opening the counters (REDIS_URL): %w", err)
	}
	pools := map[string]*topology.Connections{"redis_pool": mainPool}
	if !set.BothRedis.Persecond {
		return guarded(main, "Redis", pools, set, metrics, log), nil
	}
	log = log.With("redis", "REDIS_PERSECOND")
	perSecond, pool, err := openOne(set, &set.PerSecond, "per_second", metrics, servers, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the second counters (REDIS_PERSECOND_URL): %w", err), main.Close())
	}
	pools["redis_per_second_pool"] = pool
	return guarded(redis.PerSecond(main, perSecond), "Redis", pools, set, metrics, log), nil
}

// openOne opens one Redis, in the keys that KEY_FORMAT says, and lets it be measured under a name.
func openOne(set *config.Settings, variables *config.Redis, name string, metrics *stats.Metrics, servers *stats.Redis,
	log *slog.Logger) (store redis.Counters, pool *topology.Connections, err error) {
	c, err := set.RedisConfig(variables, log)
	if err != nil {
		return nil, nil, err
	}
	c.Connections = new(topology.Connections)
	config := redis.Config{
		Redis: c, Meter: func(server string) pipeline.Meter { return servers.Server(name, server) },
	}
	if set.Keys().Format == descriptors.KeysOfRatelimit {
		store, err = redis.OpenRatelimit(config, set.Windows())
	} else {
		store, err = redis.Open(config)
	}
	if err != nil {
		return nil, nil, err
	}
	servers.Watch(name, func(yield func(server string, away bool)) {
		for _, s := range store.Stats().Servers {
			yield(s.Name, s.Away)
		}
	})
	showTotals(metrics, map[string]string{"redis": name}, store.Stats, pipelineTotals)
	countServers(store, "weir_redis_servers", map[string]string{"redis": name}, metrics)
	return store, c.Connections, nil
}

// pipelineTotals are about the checks for one of the Redis.
var pipelineTotals = []total[pipeline.Stats]{
	{"weir_redis_batches_total", "Batches of checks sent to Redis.", func(s pipeline.Stats) uint64 { return s.Batches }},
	{"weir_redis_checks_total", "Checks in them.", func(s pipeline.Stats) uint64 { return s.Checks }},
	{"weir_redis_dropped_total", "Checks that were not sent because their callers had left.",
		func(s pipeline.Stats) uint64 { return s.Dropped }},
	{"weir_redis_unavailable_total", "Checks that Redis gave no answer to.",
		func(s pipeline.Stats) uint64 { return s.Unavailable }},
	{"weir_redis_counts_lost_total", "Times that a server may have lost its counts, as it was away, restarted, flushed or " +
		"replaced, or that keys went to another node of a ring without theirs.",
		func(s pipeline.Stats) uint64 { return s.Losses }},
}

// total is a number of some statistics that only grows, under its name in /metrics.
type total[S any] struct {
	name, help string
	value      func(S) uint64
}

// showTotals shows totals in /metrics, from the statistics as they are then.
func showTotals[S any](metrics *stats.Metrics, labels map[string]string, statistics func() S, all []total[S]) {
	for _, t := range all {
		metrics.Counter(t.name, t.help, labels, func() float64 { return float64(t.value(statistics())) })
	}
}

// countServers shows under a name how many servers of a store are in each state.
func countServers(store backend.Health, name string, labels map[string]string, metrics *stats.Metrics) {
	for i := range backend.ServerStates {
		state, all := backend.ServerState(i), map[string]string{"state": backend.ServerState(i).String()}
		maps.Copy(all, labels)
		metrics.Gauge(name, helpOfServers, all, func() (n float64) {
			for _, found := range store.Servers() {
				if found == state {
					n++
				}
			}
			return n
		})
	}
}

const helpOfServers = "Servers that count, by what is known of them: up, away (they do not answer, or too " +
	"late, or have not answered yet), or failing (they answer, and cannot count)."

// await waits until the servers were reached once; if a Redis is not in time, it returns an error.
func (c *counters) await(ctx context.Context) error {
	if c.remote == nil {
		return nil
	}
	if err := c.remote.Await(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("redis could not count within REDIS_STARTUP_MAX_ELAPSED_TIME: %w", err)
	}
	return nil
}

// follow keeps health negative while the servers do not answer, until ctx ends, if that is enabled.
func (c *counters) follow(ctx context.Context, h *server.Health, enabled bool) {
	for more := enabled; more; more = wait.For(ctx, 200*time.Millisecond) {
		h.SetStoreAway(c.remote != nil && c.remote.Answers() != nil)
	}
}

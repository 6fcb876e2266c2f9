package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/pipeline"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/stats"
)

// openRedis opens the Redis of the settings and, if there is one, the second Redis for limits per second, wrapped in one
// guard.
func openRedis(settings *config.Settings, metrics *stats.Metrics, trace outbound.Trace, log *slog.Logger) (*counterStore, error) {
	servers := metrics.RegisterRedis()
	main, mainPool, err := openOneRedis(settings, &settings.Redis, "main", metrics, servers, trace, log)
	if err != nil {
		return nil, fmt.Errorf("opening the counters (REDIS_URL): %w", err)
	}
	pools := map[string]*topology.Connections{"redis_pool": mainPool}
	store := main
	if settings.BothRedis.UsePerSecond {
		log = log.With("redis", "REDIS_PERSECOND")
		perSecond, pool, err := openOneRedis(settings, &settings.PerSecond, "per_second", metrics, servers, trace, log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("opening the second counters (REDIS_PERSECOND_URL): %w", err), main.Close())
		}
		pools["redis_per_second_pool"], store = pool, redis.PerSecond(main, perSecond)
	}
	counters := guardStore(store, "Redis", pools, settings, metrics, log)
	counters.warning = func() (lines string) {
		for _, s := range store.Stats().Servers {
			if s.Foreign != "" {
				lines += fmt.Sprintf("foreign library %s in redis %s: see WeirRedisForeignLibrary in RUNBOOK.md\n", s.Foreign, s.Name)
			}
		}
		return lines
	}
	return counters, nil
}

// openOneRedis opens one Redis, whose keys have the format of KEY_FORMAT, and registers its metrics under a name.
func openOneRedis(settings *config.Settings, variables *config.Redis, name string, metrics *stats.Metrics, servers *stats.Redis,
	trace outbound.Trace, log *slog.Logger) (store redis.Counters, pool *topology.Connections, err error) {
	c, err := settings.RedisConfig(variables, log)
	if err != nil {
		return nil, nil, err
	}
	c.Connections = new(topology.Connections)
	config := redis.Config{
		Redis: c, Meter: func(server string) pipeline.Meter { return servers.Server(name, server) },
		ScriptsOnly: !settings.BothRedis.Functions, Trace: trace,
	}
	if settings.Keys().Format == descriptors.KeysOfRatelimit {
		store, err = redis.OpenRatelimit(config, settings.RatelimitKeys())
	} else {
		store, err = redis.Open(config)
	}
	if err != nil {
		return nil, nil, err
	}
	servers.RegisterServers(name, func(yield func(server string, away, foreign bool)) {
		for _, s := range store.Stats().Servers {
			yield(s.Name, s.Away, s.Foreign != "")
		}
	})
	registerTotals(metrics, map[string]string{"redis": name}, store.Stats, pipelineTotals)
	registerServers(store, "weir_redis_servers", map[string]string{"redis": name}, metrics)
	return store, c.Connections, nil
}

// pipelineTotals are the counters of the checks of one Redis.
var pipelineTotals = []total[pipeline.Stats]{
	{"weir_redis_batches_total", "Batches of checks sent to Redis.", func(s pipeline.Stats) uint64 { return s.Batches }},
	{"weir_redis_checks_total", "Checks in batches sent to Redis.", func(s pipeline.Stats) uint64 { return s.Checks }},
	{"weir_redis_dropped_total", "Checks that were not sent because their callers had left.",
		func(s pipeline.Stats) uint64 { return s.Dropped }},
	{"weir_redis_unavailable_total", "Checks that Redis did not answer.",
		func(s pipeline.Stats) uint64 { return s.Unavailable }},
	{"weir_redis_counts_lost_total", "Times that a server may have lost its counts, as it was away, restarted, flushed or " +
		"replaced, or that keys went to another node of a ring without theirs.",
		func(s pipeline.Stats) uint64 { return s.Losses }},
}

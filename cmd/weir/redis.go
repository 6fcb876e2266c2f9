package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/backend/redis/counter"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/cmd/weir/wait"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/stats"
)

// counters are where weir counts.
type counters struct {
	backend.Counter
	backend.Inspector
	redis []*counter.Store // what they are made of; none in memory
}

// openRedis opens the Redis that the variables name: one, or one more for limits per second.
func openRedis(set *settings.Settings, metrics *stats.Metrics, log *slog.Logger) (*counters, error) {
	set.Redis.Warn("REDIS", log)
	servers := metrics.Redis()
	main, err := openOne(set.RedisConfig(&set.Redis, log), "main", servers)
	if err != nil {
		return nil, fmt.Errorf("opening the counters: %w", err)
	}
	measureRedis(main, "main", metrics)
	if !set.BothRedis.Persecond {
		return &counters{main, main, []*counter.Store{main}}, nil
	}
	log = log.With("redis", "REDIS_PERSECOND")
	set.PerSecond.Warn("REDIS_PERSECOND", log)
	perSecond, err := openOne(set.RedisConfig(&set.PerSecond, log), "per_second", servers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the counters of limits per second (REDIS_PERSECOND): %w", err), main.Close())
	}
	measureRedis(perSecond, "per_second", metrics)
	pair := counter.NewPair(main, perSecond)
	return &counters{pair, pair, []*counter.Store{main, perSecond}}, nil
}

// openOne opens one Redis, and lets its servers be measured under a name.
func openOne(c redis.Config, name string, servers *stats.Redis) (*counter.Store, error) {
	store, err := counter.Open(counter.Config{
		Redis: c, Meter: func(server string) counter.Meter { return servers.Server(name, server) },
	})
	if err != nil {
		return nil, err
	}
	servers.Watch(name, func(yield func(server string, away bool)) {
		for _, s := range store.Stats().Servers {
			yield(s.Name, s.Away)
		}
	})
	return store, nil
}

// measureRedis shows what becomes of the checks for one of the Redis.
func measureRedis(store *counter.Store, name string, metrics *stats.Metrics) {
	for _, m := range []struct {
		name, help string
		total      func(counter.Stats) uint64
	}{
		{"batches", "Batches of checks sent to Redis.", func(s counter.Stats) uint64 { return s.Batches }},
		{"checks", "Checks in them.", func(s counter.Stats) uint64 { return s.Checks }},
		{"redirects", "Redirects of a Redis Cluster that a check followed.",
			func(s counter.Stats) uint64 { return s.Redirects }},
		{"resent", "Checks sent again, as it was proven that they had not run.",
			func(s counter.Stats) uint64 { return s.Resent }},
		{"dropped", "Checks that were not sent because their callers had left.",
			func(s counter.Stats) uint64 { return s.Dropped }},
		{"unavailable", "Checks that Redis gave no answer to.", func(s counter.Stats) uint64 { return s.Unavailable }},
	} {
		metrics.Counter("weir_redis_"+m.name+"_total", m.help, map[string]string{"redis": name},
			func() float64 { return float64(m.total(store.Stats())) })
	}
}

// await waits until each Redis was reached once; if one is not in time, it returns an error.
func (c *counters) await(ctx context.Context) error {
	for _, s := range c.redis {
		if err := s.Health().Await(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("redis could not count within REDIS_STARTUP_MAX_ELAPSED_TIME: %w", err)
		}
	}
	return nil
}

// follow lets health say no, until ctx ends, while one of the Redis does not answer.
func (c *counters) follow(ctx context.Context, h *server.Health) {
	away := func(s *counter.Store) bool { return s.Health().Answers() != nil }
	for more := true; more; more = wait.For(ctx, 200*time.Millisecond) {
		h.Counting(!slices.ContainsFunc(c.redis, away))
	}
}

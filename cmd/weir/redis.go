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
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/stats"
)

// counters are where weir counts.
type counters struct {
	backend.Counter
	backend.Inspector
	backend.Lister
	redis func() []*counter.Store       // what they are made of, as far as it is in use; nil in memory
	pools map[string]*redis.Connections // of each Redis, by what envoyproxy/ratelimit's statistics call it
}

// stores returns what the counters are made of, as far as it is in use; none in memory.
func (c *counters) stores() []*counter.Store {
	if c.redis == nil {
		return nil
	}
	return c.redis()
}

// oneRedis is one of the Redis that weir counts in.
type oneRedis struct {
	counter.Counters
	inUse       func() []*counter.Store
	connections *redis.Connections
}

// openRedis opens the Redis that the variables name: one, or one more for limits per second.
func openRedis(set *settings.Settings, metrics *stats.Metrics, log *slog.Logger) (*counters, error) {
	servers := metrics.Redis()
	main, err := openOne(set, set.RedisConfig(&set.Redis, log), "main", servers)
	if err != nil {
		return nil, fmt.Errorf("opening the counters: %w", err)
	}
	main.measure("main", metrics)
	if !set.BothRedis.Persecond {
		return &counters{main, main, main, main.inUse, map[string]*redis.Connections{"redis_pool": main.connections}}, nil
	}
	log = log.With("redis", "REDIS_PERSECOND")
	perSecond, err := openOne(set, set.RedisConfig(&set.PerSecond, log), "per_second", servers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the counters of limits per second (REDIS_PERSECOND): %w", err), main.Close())
	}
	perSecond.measure("per_second", metrics)
	pair := counter.NewPair(main, perSecond)
	return &counters{pair, pair, pair, func() []*counter.Store { return slices.Concat(main.inUse(), perSecond.inUse()) },
		map[string]*redis.Connections{"redis_pool": main.connections, "redis_per_second_pool": perSecond.connections}}, nil
}

// openOne opens one Redis, and lets its servers be measured under a name.
func openOne(set *settings.Settings, c redis.Config, name string, servers *stats.Redis) (*oneRedis, error) {
	c.Connections = new(redis.Connections)
	config := counter.Config{
		Redis: c, Meter: func(server string) counter.Meter { return servers.Server(name, server) },
	}
	one, err := openKeys(set, config)
	if err != nil {
		return nil, err
	}
	one.connections = c.Connections
	servers.Watch(name, func(yield func(server string, away bool)) {
		for _, store := range one.inUse() {
			for _, s := range store.Stats().Servers {
				yield(s.Name, s.Away)
			}
		}
	})
	return one, nil
}

// openKeys opens what counts in the keys that KEY_FORMAT says.
func openKeys(set *settings.Settings, c counter.Config) (*oneRedis, error) {
	if set.Keys().Format == descriptors.KeysOfRatelimit {
		mixed, err := counter.OpenMixed(c, set.PlainKeys.Windows())
		if err != nil {
			return nil, err
		}
		return &oneRedis{Counters: mixed, inUse: mixed.InUse}, nil
	}
	store, err := counter.Open(c)
	if err != nil {
		return nil, err
	}
	return &oneRedis{Counters: store, inUse: func() []*counter.Store { return []*counter.Store{store} }}, nil
}

// measure shows what becomes of the checks for one of the Redis.
func (o *oneRedis) measure(name string, metrics *stats.Metrics) {
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
		metrics.Counter("weir_redis_"+m.name+"_total", m.help, map[string]string{"redis": name}, func() (sum float64) {
			for _, store := range o.inUse() {
				sum += float64(m.total(store.Stats()))
			}
			return sum
		})
	}
	o.count(name, metrics)
}

// count shows how many servers one of the Redis has, by what is known of them.
func (o *oneRedis) count(name string, metrics *stats.Metrics) {
	for state := range redis.States {
		metrics.Gauge("weir_redis_servers", "Servers that count, by what is known of them: up, away (they do not answer, or too "+
			"late, or have not answered yet), or failing (they answer, and cannot count).",
			map[string]string{"redis": name, "state": redis.State(state).String()}, func() (n float64) {
				for _, is := range o.known() {
					if is == redis.State(state) {
						n++
					}
				}
				return n
			})
	}
}

// known returns the state of each server by its name. One that is up in one way of counting may not be in another.
func (o *oneRedis) known() map[string]redis.State {
	known := make(map[string]redis.State)
	for _, store := range o.inUse() {
		for server, is := range store.Known() {
			if before, there := known[server]; !there || before == redis.Up || is == redis.Away {
				known[server] = is
			}
		}
	}
	return known
}

// await waits until each Redis was reached once; if one is not in time, it returns an error.
func (c *counters) await(ctx context.Context) error {
	for _, s := range c.stores() {
		if err := s.Health().Await(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("redis could not count within REDIS_STARTUP_MAX_ELAPSED_TIME: %w", err)
		}
	}
	return nil
}

// follow lets health say no, until ctx ends, while one of the Redis does not answer, if that is asked for.
func (c *counters) follow(ctx context.Context, h *server.Health, asked bool) {
	away := func(s *counter.Store) bool { return s.Health().Answers() != nil }
	for more := asked; more; more = wait.For(ctx, 200*time.Millisecond) {
		h.Counting(!slices.ContainsFunc(c.stores(), away))
	}
}

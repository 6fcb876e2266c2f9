package main

import (
	"fmt"
	"log/slog"

	"github.com/weirproxy/weir/backend/memcached"
	"github.com/weirproxy/weir/backend/outbound"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server/stats"
)

// openMemcached opens the memcached of the settings, wrapped in a guard.
func openMemcached(settings *config.Settings, metrics *stats.Metrics, trace outbound.Trace, log *slog.Logger) (*counterStore, error) {
	c, err := settings.MemcachedConfig(log)
	if err != nil {
		return nil, fmt.Errorf("opening the counters: %w", err)
	}
	c.Trace = trace
	store := memcached.Open(c)
	registerTotals(metrics, nil, store.Stats, memcachedTotals)
	registerServers(store, "weir_memcached_servers", nil, metrics)
	return guardStore(store, "memcached", nil, settings, metrics, log), nil
}

var memcachedTotals = []total[memcached.Stats]{
	{"weir_memcached_exchanges_total", "Exchanges with memcached. An exchange has one check or many.",
		func(s memcached.Stats) uint64 { return s.Exchanges }},
	{"weir_memcached_checks_total", "Checks in exchanges with memcached. A check that is decided again after a lost race counts again.",
		func(s memcached.Stats) uint64 { return s.Checks }},
	{"weir_memcached_lost_races_total", "Values that weir could not write because another process had changed them meanwhile.",
		func(s memcached.Stats) uint64 { return s.LostRaces }},
	{"weir_memcached_dropped_total", "Checks that were not counted because their callers had left.",
		func(s memcached.Stats) uint64 { return s.Dropped }},
	{"weir_memcached_unavailable_total", "Checks that memcached did not answer.",
		func(s memcached.Stats) uint64 { return s.Unavailable }},
	{"weir_memcached_evictions_total", "Unexpired values that memcached evicted to make room. Counts may be among them.",
		func(s memcached.Stats) uint64 { return s.Evictions }},
	{"weir_memcached_restarts_total", "Restarts and flushes of a memcached, which lose all its counts.",
		func(s memcached.Stats) uint64 { return s.Restarts }},
	{"weir_memcached_future_values_total", "Values written by a process whose clock was more than a second ahead of this one's.",
		func(s memcached.Stats) uint64 { return s.Ahead }},
}

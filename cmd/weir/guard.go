package main

import (
	"log/slog"

	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/server/stats"
)

// maxLocalKeys is how many keys are counted in this process at most while the store is away: some 27 MB.
const maxLocalKeys = 100_000

// sharedStore is a store on servers.
type sharedStore interface {
	guard.Store
	remote
}

// guarded puts a guard before a store that may be away.
func guarded(store sharedStore, kind string, pools map[string]*topology.Connections, set *config.Settings,
	metrics *stats.Metrics, log *slog.Logger) *counters {
	replicas := func() int { // by their heartbeats or, until all had the time to send one, at least as many as are configured
		alive, all := store.Replicas()
		if all {
			return alive
		}
		return max(alive, set.Replicas)
	}
	g := guard.New(store, guard.Config{
		Policy: set.OnFailure, Replicas: replicas, FixedWindowBytes: set.LocalCacheSize,
		Leases: set.Leasing(),
		Local:  memory.Open(memory.Config{MaxKeys: maxLocalKeys, Log: log}),
	})
	metrics.Counter("weir_deny_cache_denials_total", "Checks denied without asking the store, which had denied them within the last second.",
		nil, func() float64 { return float64(g.Stats().DenyCacheHits) })
	showTotals(metrics, nil, g.Stats, leaseTotals)
	metrics.Gauge("weir_replicas", "Processes of weir that share the counters, by which a limit is divided where each counts by itself.", nil,
		func() float64 { return float64(replicas()) })
	return &counters{Store: g, remote: store, kind: kind, pools: pools}
}

// leaseTotals are about hits that Redis grants this process beforehand.
var leaseTotals = []total[guard.Stats]{
	{"weir_leases_total", "Leases: blocks of hits of a busy key that Redis has granted.", func(s guard.Stats) uint64 { return s.Leases }},
	{"weir_lease_hits_granted_total", "Hits in them.", func(s guard.Stats) uint64 { return s.LeaseGranted }},
	{"weir_lease_hits_used_total", "Hits that were admitted by leases, without asking Redis.",
		func(s guard.Stats) uint64 { return s.LeaseUsed }},
	{"weir_lease_hits_returned_total", "Unused hits of leases that were given back.",
		func(s guard.Stats) uint64 { return s.LeaseReturned }},
	{"weir_lease_hits_left_total", "Unused hits of leases that were not given back: they count until their window ends.",
		func(s guard.Stats) uint64 { return s.LeaseStranded }},
}

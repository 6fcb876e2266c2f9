package main

import (
	"log/slog"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/guard"
	"github.com/weirproxy/weir/backend/memory"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/server/stats"
)

// maxLocalKeys is how many keys are counted in this process at most while Redis is away: some 27 MB.
const maxLocalKeys = 100_000

// guarded puts a guard before counters that may be away.
func (c *counters) guarded(set *settings.Settings, metrics *stats.Metrics, log *slog.Logger) *counters {
	g := guard.New(c, guard.Config{
		Policy: set.OnFailure, Replicas: func() int { return set.Replicas },
		Local: func() (backend.Counter, error) {
			return memory.Open(memory.Config{MaxKeys: maxLocalKeys, Log: log})
		},
	})
	metrics.Counter("weir_deny_cache_denials_total", "Checks denied without asking Redis, which had denied them within the last second.",
		nil, func() float64 { return float64(g.Stats().Spared) })
	metrics.Gauge("weir_deny_cache_keys", "Keys whose last denial is remembered.",
		func() float64 { return float64(g.Stats().Keys) })
	return &counters{Counter: g, Inspector: g, redis: c.redis}
}

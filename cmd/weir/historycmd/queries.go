package historycmd

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/cmd/weir/settings"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
	"github.com/weirproxy/weir/server/stats"
)

// Queries answers Prometheus's API over a history, within the bounds of the environment, and counts what becomes of
// queries. Rules may be nil, as for engine.Config; ready says why the history cannot be read. Usual is how many queries are
// answered at a time if the environment does not say.
func Queries(set *settings.Settings, store history.Store, rules func() []*descriptors.Rule, ready func() error,
	usual int, metrics stats.Process, version string, log *slog.Logger) *promql.Handler {
	bounds := set.History.Queries
	atATime := cmp.Or(bounds.Concurrency, usual)
	h := promql.NewHandler(promql.Config{
		Engine: engine.New(engine.Config{Store: store, Rules: rules, Now: time.Now, MaxSamples: bounds.MaxSamples,
			Timeout: bounds.Timeout, Log: log}),
		Now: time.Now, Ready: ready, Version: version, Concurrency: atATime, Begin: newProcessors(atATime).begin, Log: log,
	})
	for _, result := range promql.Results() {
		metrics.Counter("weir_history_queries_total", "Queries of the history by Prometheus's API, by how they ended.",
			map[string]string{"result": result.String()}, func() float64 { return float64(h.Answered(result)) })
	}
	metrics.Counter("weir_history_query_seconds_total", "Time in which they were evaluated and answered, all together.", nil, h.Took)
	metrics.Gauge("weir_history_queries_running", "Those that are being evaluated or answered now.", nil,
		func() float64 { return float64(h.Running()) })
	return h
}

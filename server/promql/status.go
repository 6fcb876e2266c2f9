package promql

import (
	"runtime"

	"github.com/weirproxy/weir/server/promql/engine"
)

// prometheusVersion is that of the engine, as Prometheus counts: clients choose by it what they may ask. A test compares
// it with go.mod.
const prometheusVersion = "3.16.0"

// buildInfo answers who this is. Grafana takes a source with a field of features for Mimir, so there is none.
func (h *Handler) buildInfo(*request) *answer {
	info := map[string]string{
		"application": "weir", "version": prometheusVersion, "revision": h.config.Version, "branch": "", "buildUser": "",
		"buildDate": "", "goVersion": runtime.Version(),
	}
	return &answer{data: func(e *encoder) { e.json(info) }}
}

// metrics are all that the history has: name, type and help.
var metrics = [][3]string{
	{engine.HitsPeak, "gauge", "Hits in the largest minute of the stored bucket that holds the moment, by outcome."},
	{engine.HitsTotal, "counter", "Hits by rule and what became of them: within its limits, over, which is denied, shadow, " +
		"over but let through, or degraded, decided without a store."},
	{engine.LimitRequests, "gauge", "Requests that a limit allows, as configured now: what it was in the past is not stored."},
	{engine.NearTotal, "counter", "Of the hits within, those above NEAR_LIMIT_RATIO of the limit."},
}

// metadata answers what metrics there are.
func metadata(*request) *answer {
	all := make(map[string][]map[string]string)
	for _, m := range metrics {
		all[m[0]] = []map[string]string{{"type": m[1], "help": m[2], "unit": ""}}
	}
	return &answer{data: func(e *encoder) { e.json(all) }}
}

package promql

import (
	"runtime"

	"github.com/weirproxy/weir/server/promql/engine"
)

// prometheusVersion is the Prometheus release of the engine, from which clients tell its features. A test compares it with
// go.mod.
const prometheusVersion = "3.16.0"

// buildInfo answers with the build. It has no field features, or Grafana would take weir for Mimir.
func (h *Handler) buildInfo(*request) *answer {
	info := map[string]string{
		"application": "weir", "version": prometheusVersion, "revision": h.config.Version, "branch": "", "buildUser": "",
		"buildDate": "", "goVersion": runtime.Version(),
	}
	return &answer{data: func(e *encoder) { e.json(info) }}
}

// metrics are the metrics of the history: name, type and help.
var metrics = [][3]string{
	{engine.HitsPeak, "gauge", "Hits in the largest minute of the stored bucket that holds the moment, by outcome."},
	{engine.HitsTotal, "counter", "Hits by rule and outcome: within (the limits), over (denied), shadow (over the limits, but let through) " +
		"or degraded (decided without a store)."},
	{engine.LimitRequests, "gauge", "Requests that a limit allows, as configured now: what it was in the past is not stored."},
	{engine.NearTotal, "counter", "Hits within the limit, but above NEAR_LIMIT_RATIO of it."},
}

// metadata answers with the metrics.
func metadata(*request) *answer {
	all := make(map[string][]map[string]string)
	for _, m := range metrics {
		all[m[0]] = []map[string]string{{"type": m[1], "help": m[2], "unit": ""}}
	}
	return &answer{data: func(e *encoder) { e.json(all) }}
}

package promql

import (
	"encoding/json"
	"runtime"
)

// prometheusVersion is that of the engine, as Prometheus counts: clients choose by it what they may ask. A test compares
// it with go.mod.
const prometheusVersion = "3.16.0"

// buildInfo answers who this is. Grafana takes a source with a field of features for Mimir, so there is none.
func (h *Handler) buildInfo(*request) *answer {
	return plain(map[string]string{
		"application": "weir", "version": prometheusVersion, "revision": h.config.Version, "branch": "", "buildUser": "",
		"buildDate": "", "goVersion": runtime.Version(),
	})
}

// described is what metadata says of a metric.
type described struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

// metrics are all that the history has, in the order of their names.
var metrics = []struct {
	name string
	described
}{
	{"weir_hits_peak", described{"gauge", "Hits in the largest minute of the stored bucket that holds the moment, by outcome.", ""}},
	{"weir_hits_total", described{"counter", "Hits by rule and what became of them: within or over its limits, or degraded, " +
		"decided without a store.", ""}},
	{"weir_limit_requests", described{"gauge", "Requests that a limit allows, as configured now: what it was in the past is not " +
		"stored.", ""}},
	{"weir_near_hits_total", described{"counter", "Of the hits within, those above NEAR_LIMIT_RATIO of the limit.", ""}},
	{"weir_shadow_hits_total", described{"counter", "Of the hits over, those that shadow mode let through.", ""}},
}

// metadata answers what metrics there are.
func metadata(r *request) *answer {
	asked := r.parameter("metric")
	known := make(map[string][]described)
	for _, m := range metrics {
		if asked == "" || asked == m.name {
			known[m.name] = []described{m.described}
		}
	}
	return plain(known)
}

// plain returns an answer with a value of strings only.
func plain(value any) *answer {
	text, _ := json.Marshal(value) // strings do not fail
	return nothing(string(text))(nil)
}

package config

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// ineffective are the variables of envoyproxy/ratelimit that weir does not read, by what their names begin with.
var ineffective = []struct{ names, why string }{
	{"TRACING_ OTEL_EXPORTER_", "weir sends no traces"},
	{"GRPC_SERVER_TLS_CA_CERT", "GRPC_CLIENT_TLS_CACERT asks clients for certificates"},
	{"REDIS_PIPELINE_ REDIS_PERSECOND_PIPELINE_ REDIS_CLUSTER_PIPELINE_ REDIS_PERSECOND_CLUSTER_PIPELINE_",
		"checks are batched without waiting, and all servers asked at the same time"},
}

// WarnOfIneffective logs which of them are set, and why weir does not read them. It shows no value: some are secrets.
func (e Environment) WarnOfIneffective(log *slog.Logger) {
	var all []string
	for _, group := range ineffective {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(e)) {
			begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if e.isOn(name) && slices.ContainsFunc(strings.Fields(group.names), begins) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			all = append(all, strings.Join(names, ", ")+" ("+group.why+")")
		}
	}
	if len(all) > 0 {
		log.Warn("environment variables have no effect", "variables", strings.Join(all, "; "))
	}
}

// isOn reports whether a variable is set, and not to false or 0.
func (e Environment) isOn(name string) bool {
	return !slices.Contains([]string{"", "0", "0s", "false"}, strings.ToLower(e[name]))
}

package config

import (
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// ineffective are variables that do nothing, by what their names begin with. Of the first groups weir reads none.
var ineffective = []struct {
	names, why string
	when       func(s *Settings) bool // nil is always
}{
	{"MEMCACHE_HOST_PORT MEMCACHE_MAX_ MEMCACHE_SRV MEMCACHE_TLS", "weir does not count in memcached", nil},
	{"TRACING_ OTEL_EXPORTER_", "weir sends no traces", nil},
	{"GRPC_SERVER_TLS_CA_CERT", "GRPC_CLIENT_TLS_CACERT asks clients for certificates", nil},
	{"REDIS_PIPELINE_ REDIS_PERSECOND_PIPELINE_ REDIS_CLUSTER_PIPELINE_ REDIS_PERSECOND_CLUSTER_PIPELINE_",
		"checks are batched without waiting, and all servers asked at the same time", nil},
	{"REDIS_", "counters are in memory", func(s *Settings) bool { return s.BackendType != "redis" && s.HistoryVariable() == "" }},
	{"REDIS_PERSECOND_", "REDIS_PERSECOND is not true", func(s *Settings) bool { return !s.BothRedis.Persecond }},
	{"MEMORY_ DATA_SAVE_", "counters are in Redis", func(s *Settings) bool { return s.BackendType == "redis" }},
	{"EXPIRATION_ USE_CALENDAR_", "counters are not in the keys of ratelimit",
		func(s *Settings) bool { return s.Keys().Format != descriptors.KeysOfRatelimit }},
	{"HISTORY_ REDIS_HISTORY_", "no history is kept", func(s *Settings) bool { return !s.KeepHistory }},
	{"CONFIG_GRPC_XDS_ XDS_CLIENT_", "CONFIG_TYPE is not GRPC_XDS_SOTW", func(s *Settings) bool { return !s.FromServer() }},
	{"GRPC_SERVER_TLS_", "GRPC_SERVER_USE_TLS is not true", func(s *Settings) bool { return !s.ServerTLS }},
	{"PROMETHEUS_", "USE_PROMETHEUS is not true", func(s *Settings) bool { return !s.UsePrometheus }},
	{"STATSD_ STATS_FLUSH_", "nothing is sent to statsd", func(s *Settings) bool { return len(s.StatsdSinks()) == 0 }},
	{"DENIAL_LOG_", "LOG_LEVEL leaves out lines of level info", func(s *Settings) bool { return s.LogLevel > logLevel(slog.LevelInfo) }},
}

// WarnOfIneffective logs, in one line, which variables are set and do nothing, and why. It shows no value: some are secrets.
func (s *Settings) WarnOfIneffective(e Environment, log *slog.Logger) {
	var all []string
	known, told := variables(), make(map[string]bool)
	for _, group := range ineffective {
		if group.when != nil && !group.when(s) {
			continue
		}
		var names []string
		for _, name := range slices.Sorted(maps.Keys(e)) {
			begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if !told[name] && known[name] == (group.when != nil) && e.asks(name) && slices.ContainsFunc(strings.Fields(group.names), begins) {
				names, told[name] = append(names, name), true
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

// asks reports whether a variable asks for anything.
func (e Environment) asks(name string) bool {
	return !slices.Contains([]string{"", "0", "0s", "false"}, strings.ToLower(e[name]))
}

// variables returns the names of the variables that weir reads.
func variables() map[string]bool {
	var asked lookups
	if err := asked.fill(new(Variables)); err != nil {
		return nil // unreachable: nothing is set
	}
	known := make(map[string]bool)
	for _, name := range asked.names {
		known[name] = true
	}
	return known
}

// isLinkValue reports whether a value is what Kubernetes sets NAME_PORT to for a service: tcp://10.0.0.1:6379.
func isLinkValue(value string) bool {
	protocol, _, is := strings.Cut(value, "://")
	return is && slices.Contains([]string{"tcp", "udp", "sctp"}, protocol)
}

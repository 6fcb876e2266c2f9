package config

import (
	"log/slog"
	"strings"
	"testing"
)

func TestWhatHasNoEffectIsTold(t *testing.T) {
	for environment, want := range map[string]string{
		"MEMCACHE_HOST_PORT=m:11211":                                       "MEMCACHE_HOST_PORT (weir does not count in memcached)",
		"TRACING_ENABLED=1 OTEL_EXPORTER_OTLP_ENDPOINT=http://o:4318":      "OTEL_EXPORTER_OTLP_ENDPOINT, TRACING_ENABLED (weir sends no traces)",
		"GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt":                            "GRPC_SERVER_TLS_CA_CERT (GRPC_CLIENT_TLS_CACERT asks clients for certificates)",
		"REDIS_PIPELINE_LIMIT=8 REDIS_URL=r:1":                             "REDIS_PIPELINE_LIMIT (checks are batched",
		"REDIS_AUTH=hunter2":                                               "REDIS_AUTH (counters are in memory)",
		"REDIS_URL=r:1 REDIS_PERSECOND_URL=p:1":                            "REDIS_PERSECOND_URL (REDIS_PERSECOND is not true)",
		"REDIS_URL=r:1 MEMORY_MAX_KEYS=5":                                  "MEMORY_MAX_KEYS (counters are in Redis)",
		"REDIS_URL=r:1 EXPIRATION_JITTER_MAX_SECONDS=10":                   "EXPIRATION_JITTER_MAX_SECONDS (counters are not in the keys of ratelimit)",
		"HISTORY=false HISTORY_RETENTION=99999h REDIS_HISTORY_URL=h:1":     "HISTORY_RETENTION, REDIS_HISTORY_URL (no history is kept)",
		"CONFIG_GRPC_XDS_NODE_ID=n":                                        "CONFIG_GRPC_XDS_NODE_ID (CONFIG_TYPE is not GRPC_XDS_SOTW)",
		"GRPC_SERVER_TLS_CERT=c":                                           "GRPC_SERVER_TLS_CERT (GRPC_SERVER_USE_TLS is not true)",
		"PROMETHEUS_ADDR=:9091":                                            "PROMETHEUS_ADDR (USE_PROMETHEUS is not true)",
		"STATSD_HOST=s":                                                    "STATSD_HOST (nothing is sent to statsd)",
		"LOG_LEVEL=error DENIAL_LOG_INTERVAL=1m":                           "DENIAL_LOG_INTERVAL (LOG_LEVEL leaves out lines of level info)",
		"":                                                                 "",
		"TRACING_ENABLED=False MEMCACHE_TLS=0 MEMCACHE_HOST_PORT=":         "",
		"REDIS_URL=r:1 REDIS_TIMEOUT=1s USE_STATSD=true STATSD_HOST=s":     "",
		"REDIS_HISTORY_URL=h:1 REDIS_TLS_CACERT=c HISTORY_RETENTION=9999h": "",
		"REDIS_SERVICE_HOST=10.0.0.1 MEMCACHE_PORT=tcp://10.0.0.2 HOME=/":  "",
	} {
		s := mustRead(t, environment)
		var log strings.Builder
		s.WarnOfIneffective(env(environment), slog.New(slog.NewTextHandler(&log, nil)))
		got := log.String()
		_, variables, _ := strings.Cut(got, "variables=")
		if !strings.HasPrefix(strings.Trim(variables, `"`), want) || (got == "") != (want == "") || strings.Contains(got, "hunter2") ||
			strings.Count(variables, " (") > 1 {
			t.Errorf("%s: it tells %q, want %q, and no value", environment, got, want)
		}
	}
}

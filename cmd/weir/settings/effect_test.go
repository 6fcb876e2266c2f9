package settings

import (
	"log/slog"
	"strings"
	"testing"
)

// idleOf reads an environment, and returns the line that tells what has no effect in it.
func idleOf(t *testing.T, as Program, environment ...string) string {
	t.Helper()
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	s := mustRead(t, as)
	var log strings.Builder
	s.WarnOfIdle(environment, slog.New(slog.NewTextHandler(&log, nil)))
	if strings.Count(log.String(), "\n") > 1 {
		t.Errorf("it is told on several lines: %s", &log)
	}
	return log.String()
}

func TestWhatHasNoEffectIsTold(t *testing.T) {
	for _, tc := range []struct{ name, environment string }{
		{"REDIS_PIPELINE_LIMIT", "REDIS_PIPELINE_LIMIT=8"},
		{"REDIS_PERSECOND_PIPELINE_LIMIT", "REDIS_PERSECOND_PIPELINE_LIMIT=8 REDIS_PERSECOND=true"},
		{"REDIS_POOL_ON_EMPTY_BEHAVIOR", "REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE"},
		{"RUNTIME_IGNOREDOTFILES", "RUNTIME_IGNOREDOTFILES=false"},
		{"FORCE_START_WITHOUT_INITIAL_CONFIG", "FORCE_START_WITHOUT_INITIAL_CONFIG=false"},
		{"MEMCACHE_HOST_PORT", "MEMCACHE_HOST_PORT=m:11211"},
		{"TRACING_ENABLED", "TRACING_ENABLED=1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT=http://o:4318"},
		{"GRPC_SERVER_TLS_CA_CERT", "GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt"},
		{"GRPC_CLIENT_TLS_SAN", "GRPC_CLIENT_TLS_SAN=a GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k"},
		{"STATSD_PROTOCOL", "STATSD_PROTOCOL=quic"},
		{"LOG_FORMAT", "LOG_FORMAT=logfmt"},
		{"EXPIRATION_JITTER_MAX_SECONDS", "EXPIRATION_JITTER_MAX_SECONDS=10 KEY_FORMAT=weir"},
		{"EXPIRATION_JITTER_MAX_SECONDS", "EXPIRATION_JITTER_MAX_SECONDS=10 BACKEND_TYPE=memory"},
		{"USE_CALENDAR_MONTH_RATE_LIMIT", "USE_CALENDAR_MONTH_RATE_LIMIT=true ALGORITHM=sliding_window"},
		{"PROMETHEUS_ADDR, USE_PROMETHEUS", "PROMETHEUS_ADDR=:9091 USE_PROMETHEUS=true DISABLE_STATS=true"},
		{"STATSD_HOST", "STATSD_HOST=s USE_STATSD=false"},
		{"HISTORY_QUERY_TIMEOUT", "HISTORY_QUERY_TIMEOUT=9s HISTORY_QUERY=false DATA_DIR=/data"},
		{"HISTORY_QUERY_TIMEOUT", "HISTORY_QUERY_TIMEOUT=9s HISTORY=false"},
		{"CONFIG_GRPC_XDS_NODE_ID", "CONFIG_GRPC_XDS_NODE_ID=n"},
		{"RUNTIME_ROOT", "RUNTIME_ROOT=/data CONFIG_TYPE=GRPC_XDS_SOTW"},
		{"LIMIT_RESET_HEADER", "LIMIT_RESET_HEADER=a?b LIMIT_RESPONSE_HEADERS_ENABLED=true"},
		{"NEAR_LIMIT_RATIO", "NEAR_LIMIT_RATIO=80"},
		{"REDIS_TLS_CACERT, REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CACERT=/away REDIS_TLS_CLIENT_CERT=/away"},
		{"REDIS_TLS_CLIENT_KEY", "REDIS_TLS_CLIENT_KEY=/away REDIS_TLS=true"},
		{"CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
			"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/away CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_USE_TLS=true"},
		{"REDIS_URL", "REDIS_URL=redis://r:1?timeout=5"},
		{"REDIS_PERSECOND_URL", "REDIS_PERSECOND_URL=p:1"},
		{"REDIS_TLS_CACERT", "REDIS_TLS_CACERT=c REDIS_URL=r:1"},
		{"REDIS_TLS_SERVER_NAME", "REDIS_TLS_SERVER_NAME=r REDIS_URL=r:1"},
		{"REDIS_PERSECOND_TLS_SERVER_NAME", "REDIS_PERSECOND_TLS_SERVER_NAME=r REDIS_TLS=true"},
		{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_TLS_SERVER_NAME=r REDIS_TLS=true"},
		{"REDIS_HISTORY_URL", "REDIS_HISTORY_URL=h:1 REDIS_HISTORY_URL_FILE=/f"},
		{"REDIS_HISTORY_URL_FILE", "REDIS_HISTORY_URL_FILE=/f HISTORY=false"},
		{"MEMORY_MAX_KEYS", "MEMORY_MAX_KEYS=5"},
		{"GRPC_PORT", "GRPC_PORT=8081 GRPC_UDS=/run/w.sock"},
		{"REDIS_AUTH", "REDIS_AUTH=hunter2 BACKEND_TYPE=memory"},
		{"DATA_DIR", "DATA_DIR=/data REDIS_HISTORY_URL=h:1"},
		{"HISTORY_RETENTION", "HISTORY_RETENTION=99999h HISTORY=false"},
	} {
		t.Run(tc.environment, func(t *testing.T) {
			got := idleOf(t, dropIn, strings.Fields(tc.environment)...)
			_, told, _ := strings.Cut(got, "variables=")
			if !strings.HasPrefix(strings.Trim(told, `"`), tc.name+" (") || !strings.Contains(got, "level=WARN") {
				t.Errorf("it tells %q, want %s alone, with the reason", got, tc.name)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("the log has a credential: %s", got)
			}
		})
	}
}

func TestWhatHasAnEffectOrAsksForWhatIsSoIsNotTold(t *testing.T) {
	for _, environment := range []string{
		"",
		"REDIS_PIPELINE_WINDOW=0s REDIS_PIPELINE_LIMIT=0 REDIS_CLUSTER_PIPELINE_PARALLELISM=0 REDIS_POOL_ON_EMPTY_BEHAVIOR=wait",
		"RUNTIME_IGNOREDOTFILES=1 FORCE_START_WITHOUT_INITIAL_CONFIG=T REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=True",
		"TRACING_ENABLED=False MEMCACHE_TLS=0 MEMCACHE_HOST_PORT= DISABLE_STATS=false",
		"USE_STATSD=false USE_PROMETHEUS=true PROMETHEUS_ADDR=:19001 PROMETHEUS_MAPPER_YAML=/m.yaml EXTRA_TAGS=a:b",
		"USE_STATSD=true STATSD_HOST=s STATSD_PORT=1 STATSD_PROTOCOL=udp STATS_FLUSH_INTERVAL=1s",
		"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=x:1 CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_SERVER_TLS_CACERT=c",
		"EXPIRATION_JITTER_MAX_SECONDS=10 USE_CALENDAR_MONTH_RATE_LIMIT=true LOCAL_CACHE_SIZE_IN_BYTES=1000000 CACHE_KEY_PREFIX=p",
		"REDIS_URL=redis://r:1/2?password=p REDIS_AUTH=a REDIS_TLS=true REDIS_TLS_CACERT=c NEAR_LIMIT_RATIO=0",
		"REDIS_TYPE=cluster REDIS_URL=r:1 REDIS_SOCKET_TYPE=tcp REDIS_PERSECOND=true REDIS_PERSECOND_URL=p:1",
		"REDIS_URL=rediss://r:1 REDIS_TLS_CACERT=c REDIS_TLS_SERVER_NAME=r",
		"BACKEND_TYPE=memory REDIS_HISTORY_URL_FILE=/f REDIS_TLS_CACERT=c REDIS_AUTH_FILE=/a",
		"REDIS_TLS=true REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_TLS_SERVER_NAME=r REDIS_PERSECOND=true",
		"DATA_DIR=/data HISTORY_RETENTION=99999h",
		"DATA_DIR=/data HISTORY_QUERY=true HISTORY_QUERY_TIMEOUT=9s", "HISTORY_QUERY=false HISTORY=false",
		"REDIS_SERVICE_HOST=10.0.0.1 REDIS_PORT=tcp://10.0.0.1:6379 MEMCACHE_PORT=tcp://10.0.0.2 GODEBUG=x HOME=/ PATH=/bin",
	} {
		t.Run(environment, func(t *testing.T) {
			if got := idleOf(t, dropIn, strings.Fields(environment)...); got != "" {
				t.Errorf("it tells %s", got)
			}
		})
	}
}

func TestWhatHasNoEffectIsToldToThoseWhoStartWeirToo(t *testing.T) {
	got := idleOf(t, "weir", "TRACING_ENABLED=true", "REDIS_TIMEOUT=1s", "TRACING_SERVICE_NAME=w")
	for _, want := range []string{"TRACING_ENABLED, TRACING_SERVICE_NAME (weir sends no traces)", "REDIS_TIMEOUT (counters are in memory)"} {
		if !strings.Contains(got, want) {
			t.Errorf("it tells %s, want %q in it", got, want)
		}
	}
}

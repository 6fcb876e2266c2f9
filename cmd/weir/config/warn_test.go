package config

import (
	"log/slog"
	"strings"
	"testing"
)

func TestWhatHasNoEffectIsTold(t *testing.T) {
	for environment, want := range map[string]string{
		"TRACING_ENABLED=1 OTEL_EXPORTER_OTLP_ENDPOINT=http://o:4318": "OTEL_EXPORTER_OTLP_ENDPOINT, TRACING_ENABLED (weir sends no traces)",
		"GRPC_SERVER_TLS_CA_CERT=/certs/ca.crt":                       "GRPC_SERVER_TLS_CA_CERT (GRPC_CLIENT_TLS_CACERT asks clients for certificates)",
		"REDIS_PIPELINE_LIMIT=8 REDIS_URL=r:1":                        "REDIS_PIPELINE_LIMIT (checks are batched",
		"":                                                            "",
		"TRACING_ENABLED=False MEMCACHE_TLS=0 MEMCACHE_HOST_PORT=m:1":     "",
		"REDIS_URL=r:1 REDIS_TIMEOUT=1s USE_STATSD=true STATSD_HOST=s":    "",
		"REDIS_SERVICE_HOST=10.0.0.1 MEMCACHE_PORT=tcp://10.0.0.2 HOME=/": "",
	} {
		var log strings.Builder
		env(environment).WarnOfIneffective(slog.New(slog.NewTextHandler(&log, nil)))
		got := log.String()
		_, variables, _ := strings.Cut(got, "variables=")
		if !strings.HasPrefix(strings.Trim(variables, `"`), want) || (got == "") != (want == "") || strings.Contains(got, "hunter2") ||
			strings.Count(variables, " (") > 1 {
			t.Errorf("%s: it tells %q, want %q, and no value", environment, got, want)
		}
	}
}

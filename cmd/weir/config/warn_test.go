package config

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// told returns what is told of an environment.
func told(warn func(Environment, *slog.Logger), environment string) string {
	var log strings.Builder
	warn(env(environment), slog.New(slog.NewTextHandler(&log, nil)))
	return log.String()
}

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
		got := told(s.WarnOfIneffective, environment)
		_, variables, _ := strings.Cut(got, "variables=")
		if !strings.HasPrefix(strings.Trim(variables, `"`), want) || (got == "") != (want == "") || strings.Contains(got, "hunter2") ||
			strings.Count(variables, " (") > 1 {
			t.Errorf("%s: it tells %q, want %q, and no value", environment, got, want)
		}
	}
}

func TestANameNearlyThatOfAVariableIsTold(t *testing.T) {
	for variable, meant := range map[string]string{
		"REDIS_URLS=":              "REDIS_URL", // set to nothing, as a template without a value does
		"REDIS_RUL=redis:6379":     "REDIS_URL",
		"redis_url=redis:6379":     "REDIS_URL",
		"REDISURL=redis:6379":      "REDIS_URL",
		"DEBUG_PROT=1":             "DEBUG_PORT",
		"ON_BACKEND_FAILURES=deny": "ON_BACKEND_FAILURE",
		"ALGORITM=fixed_window":    "ALGORITHM",
		"REDIS_PERSECOND_URLS=p:1": "REDIS_PERSECOND_URL",
		"REDIS_AUHT=hunter2":       "REDIS_AUTH",
	} {
		name, _, _ := strings.Cut(variable, "=")
		if got := told(WarnOfMisspelt, variable); !strings.Contains(got, name+" (did you mean "+meant+"?)") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: it tells %q, want a warning that names it and %s, and no value", variable, got, meant)
		}
	}
	if got := told(WarnOfMisspelt, "REDIS_URLS=a GRPC_PROT=1 REDIS_URL=b"); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "GRPC_PROT (did you mean GRPC_PORT?); REDIS_URLS (did you mean REDIS_URL?)") {
		t.Errorf("it tells %q, want both in one line", got)
	}
}

// What Kubernetes sets for services, of any name and ports, and what shells, languages and platforms set, is nobody's slip.
func TestNoNameOfOthersIsTold(t *testing.T) {
	others := strings.Fields(`PATH=/bin HOME=/ HOSTNAME=weir-0 PWD=/ OLDPWD=/ SHLVL=1 TERM=xterm LANG=C LC_ALL=C USER=u SHELL=/bin/sh TZ=UTC _=/x
		HISTFILE=/h HISTSIZE=1 HISTCONTROL=x COLUMNS=80 LINES=24 DEBUG=1 VERBOSE=1 POD_NAME=a POD_NAMESPACE=b POD_IP=c NODE_NAME=d
		GOMAXPROCS=2 GOMEMLIMIT=1GiB GODEBUG=x GOTRACEBACK=all GOCOVERDIR=/c GOPATH=/g GOROOT=/g GOFLAGS=x GOCACHE=/c GOGC=200 GOOS=linux
		SSL_CERT_FILE=/c SSL_CERT_DIR=/c HTTP_PROXY=x HTTPS_PROXY=x NO_PROXY=x http_proxy=x GRPC_TRACE=all GRPC_VERBOSITY=info GRPC_GO_LOG_SEVERITY_LEVEL=info
		GRPC_GO_LOG_VERBOSITY_LEVEL=99 GRPC_ENFORCE_ALPN_ENABLED=false GRPC_XDS_BOOTSTRAP=/x OTEL_SERVICE_NAME=w OTEL_RESOURCE_ATTRIBUTES=a
		DD_AGENT_HOST=h DD_ENV=p DD_SERVICE=w DD_VERSION=1 DD_ENTITY_ID=x JOURNAL_STREAM=8:1 NOTIFY_SOCKET=/n LISTEN_FDS=1 container=podman
		APP_PORT=1 HTTP_PORT=1 METRICS_PORT=1 ADMIN_PORT=1 PORT_ADMIN=1 PORTS=1 HOSTS=a DATABASE_URL=x CONFIG_FILE=/c LOG_FILE=/l
		REDISCLI_AUTH=x REDIS_VERSION=7 RELEASE=a VERSION=1 APP_ENV=x MEMCACHE_TLS=x TRACING_ENABLED=x REDIS_PIPELINE_LIMIT=1
		REDIS_POOL_ON_EMPTY_BEHAVIOR=x RUNTIME_IGNOREDOTFILES=x FORCE_START_WITHOUT_INITIAL_CONFIG=x`)
	for _, service := range []string{"REDIS", "GRPC", "WEIR", "DEBUG", "STATSD", "RATELIMIT", "REDIS_PERSECOND", "HISTORY", "LOG", "KEY", "DATA",
		"GRPC_MAX_CONNECTION", "REPLICAS", "REDIS_URL", "REDIS_URLS", "MEMORY", "ON_BACKEND"} {
		others = append(others, service+"_SERVICE_HOST=10.0.0.1", service+"_SERVICE_PORT=6379", service+"_SERVICE_PORT_GRPC=6379",
			service+"_PORT=tcp://10.0.0.1:6379", service+"_PORT_6379_TCP=tcp://10.0.0.1:6379", service+"_PORT_6379_TCP_PROTO=tcp",
			service+"_PORT_6379_TCP_PORT=6379", service+"_PORT_6379_TCP_ADDR=10.0.0.1", service+"_PORT_53_UDP_ADDR=10.0.0.1")
	}
	for name := range variables() {
		others = append(others, name+"=x")
	}
	for _, variable := range append(others, os.Environ()...) {
		if got := told(WarnOfMisspelt, variable); got != "" {
			t.Errorf("%s: it tells %s: want silence, or a warning at each start teaches people not to read them", variable, got)
		}
	}
}

package settings

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
)

// unknownIn returns the line about slips in an environment.
func unknownIn(environment ...string) string {
	var log strings.Builder
	WarnOfUnknown(environment, slog.New(slog.NewTextHandler(&log, nil)))
	return log.String()
}

func TestANameNearlyThatOfAVariableIsTold(t *testing.T) {
	for variable, meant := range map[string]string{
		"REDIS_URLS=":                "REDIS_URL", // set to nothing, as a template without a value does
		"REDIS_ULR=redis:6379":       "REDIS_URL",
		"redis_url=redis:6379":       "REDIS_URL",
		"REDISURL=redis:6379":        "REDIS_URL",
		"DEBUG_PROT=1":               "DEBUG_PORT",
		"ON_BACKEND_FAILURES=deny":   "ON_BACKEND_FAILURE",
		"ALGORITM=fixed_window":      "ALGORITHM",
		"REDIS_PERSECOND_URLS=p:1":   "REDIS_PERSECOND_URL",
		"REDIS_PIPELINE_WINDOWS=1ms": "REDIS_PIPELINE_WINDOW", // which has no effect, and is known
		"REDIS_PASSWORD=hunter2":     "REDIS_AUTH",
		"REDIS_HOST=redis":           "REDIS_URL",
	} {
		name, value, _ := strings.Cut(variable, "=")
		got := unknownIn(variable)
		if !strings.Contains(got, name+" (did you mean "+meant+"?)") || !strings.Contains(got, "level=WARN") {
			t.Errorf("%s: it tells %q, want a warning that names it and %s", variable, got, meant)
		}
		if value == "hunter2" && strings.Contains(got, value) {
			t.Errorf("the log has a credential: %s", got)
		}
	}
	if got := unknownIn("REDIS_URLS=a", "GRPC_PROT=1", "REDIS_URL=b"); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "GRPC_PROT (did you mean GRPC_PORT?); REDIS_URLS (did you mean REDIS_URL?)") {
		t.Errorf("it tells %q, want both in one line", got)
	}
}

// What Kubernetes sets for services, of any name and ports, and what shells, languages and platforms set, is nobody's slip.
func TestNoNameOfOthersIsTold(t *testing.T) {
	var links []string
	for _, service := range []string{"REDIS", "GRPC", "WEIR", "DEBUG", "STATSD", "RATELIMIT", "REDIS_PERSECOND", "HISTORY", "LOG", "KEY", "DATA",
		"GRPC_MAX_CONNECTION", "REPLICAS", "REDIS_URL", "REDIS_URLS", "MEMORY", "ON_BACKEND"} {
		links = append(links, service+"_SERVICE_HOST=10.0.0.1", service+"_SERVICE_PORT=6379", service+"_SERVICE_PORT_GRPC=6379",
			service+"_PORT=tcp://10.0.0.1:6379", service+"_PORT_6379_TCP=tcp://10.0.0.1:6379", service+"_PORT_6379_TCP_PROTO=tcp",
			service+"_PORT_6379_TCP_PORT=6379", service+"_PORT_6379_TCP_ADDR=10.0.0.1", service+"_PORT_53_UDP_ADDR=10.0.0.1")
	}
	others := strings.Fields(`PATH=/bin HOME=/ HOSTNAME=weir-0 PWD=/ OLDPWD=/ SHLVL=1 TERM=xterm LANG=C LC_ALL=C USER=u SHELL=/bin/sh TZ=UTC _=/x
		HISTFILE=/h HISTSIZE=1 HISTCONTROL=x COLUMNS=80 LINES=24 DEBUG=1 VERBOSE=1
		KUBERNETES_SERVICE_HOST=10.0.0.1 KUBERNETES_PORT=tcp://10.0.0.1:443 KUBERNETES_PORT_443_TCP=x POD_NAME=a POD_NAMESPACE=b POD_IP=c NODE_NAME=d
		GOMAXPROCS=2 GOMEMLIMIT=1GiB GODEBUG=x GOTRACEBACK=all GOCOVERDIR=/c GOPATH=/g GOROOT=/g GOFLAGS=x GOCACHE=/c GOGC=200 GOOS=linux
		SSL_CERT_FILE=/c SSL_CERT_DIR=/c HTTP_PROXY=x HTTPS_PROXY=x NO_PROXY=x http_proxy=x GRPC_TRACE=all GRPC_VERBOSITY=info GRPC_GO_LOG_SEVERITY_LEVEL=info
		GRPC_GO_LOG_VERBOSITY_LEVEL=99 GRPC_ENFORCE_ALPN_ENABLED=false GRPC_XDS_BOOTSTRAP=/x OTEL_SERVICE_NAME=w OTEL_RESOURCE_ATTRIBUTES=a
		OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=x OTEL_EXPORTER_OTLP_PROTOCOL=grpc DD_AGENT_HOST=h DD_ENV=p DD_SERVICE=w DD_VERSION=1 DD_ENTITY_ID=x
		JOURNAL_STREAM=8:1 NOTIFY_SOCKET=/n LISTEN_FDS=1 container=podman APP_PORT=1 HTTP_PORT=1 METRICS_PORT=1 ADMIN_PORT=1 PORT_ADMIN=1 PORTS=1 HOSTS=a
		DATABASE_URL=x CONFIG_FILE=/c LOG_FILE=/l REDISCLI_AUTH=x REDIS_VERSION=7 RELEASE=a VERSION=1 APP_ENV=x`)
	for _, variable := range slices.Concat(links, others, os.Environ()) {
		if got := unknownIn(variable); got != "" {
			t.Errorf("%s: it tells %s: want silence, or a warning at each start teaches people not to read them", variable, got)
		}
	}
	for name := range knownVariables() {
		if got := unknownIn(name + "=x"); got != "" {
			t.Errorf("%s is known, and yet it tells %s", name, got)
		}
	}
}

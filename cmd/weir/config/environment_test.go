package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kelseyhightower/envconfig"
)

// ratelimitVariables are those that envoyproxy/ratelimit reads, at f2fb1577, with SANITIZE_DESCRIPTOR_METRIC_DOTS, which came then.
func ratelimitVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "ratelimit-variables.txt"))
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(text))
	if len(names) != 115 {
		t.Fatalf("there are %d of them, and should be 115", len(names))
	}
	return names
}

// readVariables are those that weir reads, and their defaults.
func readVariables(t *testing.T) map[string]string {
	t.Helper()
	var rows strings.Builder
	if err := envconfig.Usagef("", new(Variables), &rows, "{{range .}}{{usage_key .}}={{usage_default .}}\n{{end}}"); err != nil {
		t.Fatal(err)
	}
	return Of(strings.Split(strings.TrimSpace(rows.String()), "\n")...)
}

func environmentDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../ENVIRONMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An operator must find every variable that weir reads, with its default.
func TestEnvironmentDocumentListsEveryVariable(t *testing.T) {
	rows := make(map[string]string) // variable → its row
	for line := range strings.Lines(environmentDocument(t)) {
		if strings.HasPrefix(line, "| `") {
			for _, name := range strings.Split(strings.Split(line, "|")[1], ",") {
				rows[strings.Trim(name, " `")] = line
			}
		}
	}
	for name, byDefault := range readVariables(t) {
		row, listed := rows[name]
		switch {
		case !listed:
			t.Errorf("ENVIRONMENT.md does not list %s", name)
		case !strings.Contains(row, "`"+byDefault+"`") && byDefault != "":
			t.Errorf("ENVIRONMENT.md gives another default for %s than %q: %s", name, byDefault, row)
		}
	}
}

// differences are what ENVIRONMENT.md says of variables of envoyproxy/ratelimit that are not the same here. MEMCACHE_*
// there stands for all that begin so.
func differences(t *testing.T) map[string]string {
	t.Helper()
	said := make(map[string]string)
	for line := range strings.Lines(environmentDocument(t)) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| **") {
			continue
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("the reason is missing: %s", line)
		}
		for _, cell := range strings.Split(cells[2], ",") {
			for _, name := range meant(t, strings.Trim(cell, " `")) {
				if said[name] != "" {
					t.Errorf("%s stands in the table twice", name)
				}
				said[name] = strings.Trim(cells[1], " *")
			}
		}
	}
	return said
}

// meant returns a name, or all of envoyproxy/ratelimit's that begin as one that ends in a star.
func meant(t *testing.T, name string) []string {
	t.Helper()
	prefix, isPattern := strings.CutSuffix(name, "*")
	if !isPattern {
		return []string{name}
	}
	names := slices.DeleteFunc(ratelimitVariables(t), func(n string) bool { return !strings.HasPrefix(n, prefix) })
	if len(names) == 0 {
		t.Errorf("no variable of envoyproxy/ratelimit is a %s", name)
	}
	return names
}

// Whoever replaces envoyproxy/ratelimit must find what becomes of each variable, and it must be so.
func TestEveryRatelimitVariableIsDocumented(t *testing.T) {
	reads, said := readVariables(t), differences(t)
	for _, name := range ratelimitVariables(t) {
		if _, read := reads[name]; !read && said[name] == "" {
			t.Errorf("ENVIRONMENT.md does not say what becomes of %s, which weir does not read", name)
		}
	}
	for name, verdict := range said {
		if _, read := reads[name]; read != (verdict == "differs") {
			t.Errorf("ENVIRONMENT.md says that %s is %s; that weir reads it is %v", name, verdict, read)
		}
	}
}

// told is what the log says of variables that have no effect.
func told(e Environment) string {
	var log strings.Builder
	e.WarnOfIneffective(slog.New(slog.NewTextHandler(&log, nil)))
	return log.String()
}

func TestUnreadVariablesNameTheNearest(t *testing.T) {
	for variable, near := range map[string]string{"REDIS_URLL=r:1": "REDIS_URL", "HISTORY_KEEP_MINUTE=0": "HISTORY_KEEP_MINUTES",
		"GRPC_PROT=1": "GRPC_PORT", "RUNTIME_WATCHROOT=false": "RUNTIME_WATCH_ROOT", "CONFIG_TYPES=FILE": "CONFIG_TYPE",
		"MEMCACHE_HOSTPORT=m:1": "MEMCACHE_HOST_PORT", "STATSD_PROTO=udp": "STATSD_PROTOCOL", "ADMIN_TOKEN=hunter2": "ADMIN_TOKEN_FILE",
		"RLQS_TIME=1m": "RLQS_TTL", "HISTRY=false": "HISTORY", "HISTROY=false": "HISTORY", "HISTOR=false": "HISTORY",
		"HOSTS=a": "HOST", "PORTS=1": "PORT", "LEASE=false": "LEASES", "REPLICA=3": "REPLICAS", "DATADIR=/d": "DATA_DIR",
		"ALGORITM=fixed_window": "ALGORITHM", "SHADOW_MOD=true": "SHADOW_MODE", "LOG_LVL=debug": "LOG_LEVEL", "BACKENDTYPE=redis": "BACKEND_TYPE",
		"ON_BACKEND_FALIURE=deny": "ON_BACKEND_FAILURE", "WEIR_LOG_LEVEL=debug": "LOG_LEVEL", "WEIR_HOST=::": "HOST",
		"WEIR_PORT=8080": "PORT", "WEIR_REDIS_URLL=r:1": "REDIS_URL"} {
		name, _, _ := strings.Cut(variable, "=")
		want := name + " (weir has no such variable; the nearest is " + near + ")"
		if got := told(Of(variable)); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("of %s weir tells %q, want %q", variable, got, want)
		}
	}
	for variable, why := range map[string]string{"REDIS_ADDR=r:1": "REDIS_URL says", "REDIS_PORT=6379": "REDIS_URL says",
		"REDIS_PASS=hunter2": "REDIS_AUTH holds", "MEMCACHED_SERVERS=m:1": "begin with MEMCACHE_"} {
		if got := told(Of(variable)); !strings.Contains(got, why) || strings.Contains(got, "nearest") || strings.Contains(got, "hunter2") {
			t.Errorf("of %s weir tells %q, want %q", variable, got, why)
		}
	}
	for _, name := range Names() {
		if got := told(Environment{name: "x"}); got != "" {
			t.Errorf("of %s, which it reads, weir tells %q; want nothing", name, got)
		}
	}
}

// othersVariables are those that Kubernetes sets for Services, that gRPC and tools read, and that shells and builds have.
const othersVariables = `REDIS_EMPTY= DOG_STATSD_MOGRIFIER_A_PATTERN=a
	GRPC_GO_LOG_SEVERITY_LEVEL=info GRPC_TRACE=all GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/ca
	PATH=/bin HOME=/ HOSTNAME=weir-0 HOSTTYPE=x86_64 HOSTFILE=/h HISTFILE=/h HISTSIZE=9 HISTFILESIZE=9 HISTCONTROL=x HISTIGNORE=x
	LOGNAME=ann LS_COLORS=x POST=1 COST=1 SORT=1 TERM=x USER=ann SHLVL=1 LANG=C TZ=UTC PWD=/ OLDPWD=/ MAIL=/m EDITOR=vi PAGER=less
	GOOS=linux GOFLAGS=x GOROOT=/go GOMEMLIMIT=1GiB GOMAXPROCS=2 GODEBUG=x SSL_CERT_FILE=/ca HTTP_PROXY=p:1 NO_PROXY=x NO_COLOR=1
	POD_NAME=w POD_IP=10.0.0.1 NODE_NAME=n NAMESPACE=n REPLICA_ID=0 DATA_HOME=/d DATA_DSN=x LOG_COLOR=always LOG_DIR=/l LOG_FILE=/l
	TLS_ENABLED=true HTTP_PORT=80 METRICS_PORT=1 DEBUG=1 DD_AGENT_HOST=a DD_SITE=x DD_TRACE_AGENT_PORT=1 WEIR_BINARY=/w WEIR_VERSION=1`

func TestForeignVariablesAreNotReported(t *testing.T) {
	all := strings.Fields(othersVariables)
	for _, service := range []string{"REDIS", "WEIR", "WEIR_ADMIN", "MEMCACHED", "HISTORY", "STATSD", "LOG", "REDIS_HOST"} {
		for _, of := range []string{"SERVICE_HOST=10.0.0.1", "SERVICE_PORT=6379", "SERVICE_PORT_TCP=6379", "PORT=tcp://10.0.0.1:6379",
			"PORT_6379_TCP=tcp://10.0.0.1:6379", "PORT_6379_TCP_ADDR=10.0.0.1", "PORT_6379_TCP_PROTO=tcp"} {
			all = append(all, service+"_"+of)
		}
	}
	for _, variable := range all {
		if got := told(Of(variable)); got != "" {
			t.Errorf("of %s, which is not meant for it, weir tells %q; want nothing", variable, got)
		}
	}
}

func TestUnreadVariablesAreLoggedAtStart(t *testing.T) {
	for name, verdict := range differences(t) {
		got := told(Environment{name: "hunter2"})
		if verdict == "not carried" && !strings.Contains(got, name+" (") || strings.Contains(got, "hunter2") {
			t.Errorf("%s is %s, and weir tells %q; want what has no effect told, and no value", name, verdict, got)
		}
	}
	const two = "OTEL_TRACES_EXPORTER, OTEL_TRACES_SAMPLER (TRACING_ENABLED and TRACING_SAMPLING_RATE say what is sent)"
	if got := told(Of("OTEL_TRACES_EXPORTER=otlp", "OTEL_TRACES_SAMPLER=always_on")); !strings.Contains(got, `"`+two+`"`) {
		t.Errorf("of two that are alike weir tells %q, want %q", got, two)
	}
	const idle = "OTEL_EXPORTER_OTLP_ENDPOINT (neither TRACING_ENABLED nor OTEL_METRICS_EXPORTER=otlp is set)"
	for sent, want := range map[string]bool{"TRACING_ENABLED=false": true, "TRACING_ENABLED=true": false, "OTEL_METRICS_EXPORTER=otlp": false} {
		if got := told(Of(sent, "OTEL_EXPORTER_OTLP_ENDPOINT=o:4318")); strings.Contains(got, `"`+idle+`"`) != want {
			t.Errorf("of a collector's address with %s weir tells %q; that nothing is sent there is to be told: %v", sent, got, want)
		}
	}
	off := Of("TRACING_ENABLED=False", "REDIS_PIPELINE_LIMIT=0", "REDIS_URL=r:1", "REDIS_SERVICE_HOST=r", "HOME=/")
	if got := told(off); got != "" {
		t.Errorf("of what is off, in force, or another's, weir tells %q; want nothing", got)
	}
}

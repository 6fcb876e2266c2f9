package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kelseyhightower/envconfig"
)

// Environment has the variables of a process by their names.
type Environment map[string]string

// Process returns the environment of this process.
func Process() Environment { return Of(os.Environ()...) }

// Of returns an environment of variables, each as NAME=VALUE.
func Of(variables ...string) Environment {
	e := make(Environment)
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		e[name] = value
	}
	return e
}

// fill fills a struct by its tags. Its error names the invalid variable and the remedy.
func (e Environment) fill(into any) error {
	restore := e.export()
	defer restore()
	err := envconfig.Process("", into)
	wrong, number := new(envconfig.ParseError), new(strconv.NumError)
	if !errors.As(err, &wrong) {
		return err
	}
	use, word := wrong.Err.Error(), true
	switch {
	case wrong.TypeName == "config.pairs": // of headers, which may be secrets
		return fmt.Errorf("environment variable %s: %w", wrong.KeyName, wrong.Err)
	case errors.As(wrong.Err, &number):
		use = map[string]string{"ParseUint": "a port is a number from 0 to 65535", "ParseBool": "use true or false"}[number.Func]
		use = cmp.Or(use, "use a number")
		if number.Func == "ParseUint" {
			_, err := strconv.ParseInt(wrong.Value, 0, 64)
			word = err != nil
		}
	case wrong.TypeName == "time.Duration":
		use = "use a number with its unit, as in 15s, 10m or 24h, up to 2562047h"
	}
	unreadable := wrongValue(wrong.KeyName, wrong.Value, use)
	unreadable.Unreadable = word
	return unreadable
}

// list is a list of texts, separated by commas.
type list []string

// Decode reads a list.
func (l *list) Decode(value string) error {
	*l = nil
	for item := range strings.SplitSeq(value, ",") {
		*l = append(*l, strings.TrimSpace(item))
	}
	return nil
}

// pairs is a list of key:value, separated by commas.
type pairs map[string]string

// Decode reads pairs. The first colon separates key and value.
func (p *pairs) Decode(value string) error {
	*p = make(pairs)
	for item := range strings.SplitSeq(value, ",") {
		key, value, is := strings.Cut(item, ":")
		if !is {
			return errors.New("use key:value, separated by commas")
		}
		(*p)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}

// exportMu is held while an Environment is the environment of the process, as envconfig reads no other.
var exportMu sync.Mutex

// mayBeEmpty reports whether an empty value of a variable differs from an unset variable.
func mayBeEmpty(name string) bool {
	return name == "DATA_DIR" || name == "RUNTIME_APPDIRECTORY" || strings.HasSuffix(name, "_HEADER")
}

// export sets the variables that weir reads in the process to their values in e, and returns a function that restores
// them. It unsets variables with an empty value, unless they may be empty.
func (e Environment) export() (restore func()) {
	exportMu.Lock()
	names, before := Names(), Process()
	set := func(from Environment, keepsEmpty func(name string) bool) {
		for _, name := range names {
			if value, is := from[name]; value != "" || is && keepsEmpty(name) {
				_ = os.Setenv(name, value) // fails only for invalid names
			} else {
				_ = os.Unsetenv(name)
			}
		}
	}
	set(e, mayBeEmpty)
	return func() {
		set(before, func(string) bool { return true })
		exportMu.Unlock()
	}
}

// Names returns the names of the variables that weir reads, without those of mogrifiers.
func Names() []string {
	var names strings.Builder
	_ = envconfig.Usagef("", new(Variables), &names, "{{range .}}{{usage_key .}} {{end}}") // the template is right
	return strings.Fields(names.String())
}

// require returns nil if a variable is valid, else an error with its value and the valid ones.
func require(valid bool, variable string, value any, use string) error {
	if valid {
		return nil
	}
	return wrongValue(variable, value, use)
}

// wrongValue returns the error of an invalid value, with the valid ones.
func wrongValue(variable string, value any, use string) *WrongValue {
	if text, isText := value.(string); isText {
		value = strconv.Quote(text)
		if strings.Contains(text, "@") { // it may be a URL with a password, of another variable
			value, use = "…", strings.ReplaceAll(use, text, "…")
		}
	}
	return &WrongValue{Variable: variable, problem: fmt.Sprintf("%v: %s", value, use)}
}

// WrongValue is the error of a variable with an invalid value.
type WrongValue struct {
	Variable   string
	Unreadable bool // the value cannot be parsed, such as a word instead of a number
	problem    string
}

// Error names the variable, its value and the valid ones.
func (w *WrongValue) Error() string { return "environment variable " + w.Variable + "=" + w.problem }

// notNegative returns an error for a number or a duration below 0.
func notNegative[N ~int | ~int64](variable string, value N) error {
	return require(value >= 0, variable, value, "it cannot be negative")
}

type group struct{ names, why string }

// endpoints are variables without an effect while nothing is sent there.
var endpoints = group{"OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
	"neither TRACING_ENABLED nor OTEL_METRICS_EXPORTER=otlp is set"}

// ineffective has the prefixes of variables that weir does not read: those of envoyproxy/ratelimit, and other programs'
// names for the address and credentials of a store.
var ineffective = []group{
	{"OTEL_TRACES_EXPORTER OTEL_TRACES_SAMPLER", "TRACING_ENABLED and TRACING_SAMPLING_RATE say what is sent"},
	{"OTEL_PROPAGATORS", "traceparent and B3 are always read"},
	{"OTEL_LOGS_EXPORTER OTEL_EXPORTER_OTLP_LOGS_", "logs go to stderr"},
	{"GRPC_SERVER_TLS_CA_CERT", "GRPC_CLIENT_TLS_CACERT asks clients for certificates"},
	{"REDIS_PIPELINE_ REDIS_PERSECOND_PIPELINE_ REDIS_CLUSTER_PIPELINE_ REDIS_PERSECOND_CLUSTER_PIPELINE_",
		"checks are batched without waiting, and all servers asked at the same time"},
	{"REDIS_POOL_ON_EMPTY_ REDIS_PERSECOND_POOL_ON_EMPTY_ REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR RUNTIME_IGNOREDOTFILES " +
		"FORCE_START_WITHOUT_INITIAL_CONFIG", "weir does so anyway"},
	{"REDIS_HOST REDIS_ADDR REDIS_PORT REDIS_SERVER REDIS_ENDPOINT REDIS_NODES REDIS_DB REDIS_MASTER", "REDIS_URL says where it is"},
	{"REDIS_USER REDIS_PASS", "REDIS_AUTH holds password or user:password"},
	{"MEMCACHED_", "variables of memcached begin with MEMCACHE_"},
}

// WarnOfIneffective logs the names of variables that are set but have no effect, with the reasons, and of unknown ones.
// It does not log values, as some are secrets.
func (e Environment) WarnOfIneffective(log *slog.Logger) {
	var all []string
	groups := ineffective
	if !e.isOn("TRACING_ENABLED") && !strings.Contains(e["OTEL_METRICS_EXPORTER"], "otlp") {
		groups = append(slices.Clip(groups), endpoints)
	}
	for _, group := range groups {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(e)) {
			begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
			if e.isOn(name) && !e.isForeign(name) && slices.ContainsFunc(strings.Fields(group.names), begins) {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			all = append(all, strings.Join(names, ", ")+" ("+group.why+")")
		}
	}
	for _, name := range e.unread() {
		all = append(all, fmt.Sprintf("%s (weir has no such variable; the nearest is %s)", name, nearest(strings.TrimPrefix(name, weirPrefix), Names())))
	}
	if len(all) > 0 {
		log.Warn("environment variables have no effect", "variables", strings.Join(all, "; "))
	}
}

// isOn reports whether a variable is set, and not to false or 0.
func (e Environment) isOn(name string) bool {
	return !slices.Contains([]string{"", "0", "0s", "false"}, strings.ToLower(e[name]))
}

package settings

import (
	"fmt"
	"log/slog"
)

// notYet are variables of envoyproxy/ratelimit, and of weir's own plan, that this version does not read. Where ignoring
// one would leave a door open or answer from other limits than asked for, weir does not start.
var notYet = []struct {
	name    string
	without string // the value that means the same as no value
	refuse  string // why weir does not start; "" only warns
}{
	{"GRPC_SERVER_USE_TLS", "false", "this version of weir serves plaintext only"},
	{"GRPC_CLIENT_TLS_CACERT", "", "this version of weir cannot check client certificates"},
	{"CONFIG_TYPE", "FILE", "this version of weir reads its configuration from files only"},
	{"KEY_FORMAT", "weir", "this version of weir writes no other keys than its own"},
	{"ON_BACKEND_FAILURE", "", ""},
	{"LOCAL_CACHE_SIZE_IN_BYTES", "0", ""},
	{"USE_STATSD", "false", ""},
	{"USE_PROMETHEUS", "false", ""},
	{"TRACING_ENABLED", "false", ""},
}

// Unsupported logs which variables are set and not read. It returns an error if weir must not start with one of them.
func Unsupported(value func(name string) string, log *slog.Logger) error {
	for _, v := range notYet {
		set := value(v.name)
		switch {
		case set == "" || set == v.without:
		case v.refuse != "":
			return fmt.Errorf("environment variable %s=%q: %s", v.name, set, v.refuse)
		default:
			log.Warn("a variable has no effect: this version of weir does not read it", "variable", v.name, "value", set)
		}
	}
	return nil
}

package settings

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/descriptors"
)

// Program is the name that weir was started by, without its folder: as ratelimit it replaces envoyproxy/ratelimit.
type Program string

// ProgramOf returns the name in a process's argument 0.
func ProgramOf(arg string) Program { return Program(filepath.Base(arg)) }

// dropIn is the name of a weir that replaces envoyproxy/ratelimit.
const dropIn Program = "ratelimit"

// Arguments returns the arguments that are meant by those given: envoyproxy/ratelimit has none, and serves.
func (p Program) Arguments(given []string) []string {
	if p == dropIn && len(given) == 0 {
		return []string{"serve"}
	}
	return given
}

// Where envoyproxy/ratelimit looks for Redis if nothing else is said.
const (
	ratelimitSocket          = "/var/run/nutcracker/ratelimit.sock"
	ratelimitPerSecondSocket = "/var/run/nutcracker/ratelimitpersecond.sock"
)

// asRatelimit gives variables that are not set the defaults of envoyproxy/ratelimit.
func (s *Settings) asRatelimit() {
	if _, set := os.LookupEnv("ALGORITHM"); !set {
		s.Algorithm = descriptors.FixedWindow
	}
	if _, set := os.LookupEnv("ON_BACKEND_FAILURE"); !set {
		s.OnFailure = descriptors.PolicyError
	}
	if s.BackendType == "" {
		s.BackendType = "redis"
	}
	s.Redis.asRatelimit(ratelimitSocket)
	s.PerSecond.asRatelimit(ratelimitPerSecondSocket)
}

// asRatelimit makes a socket the default, unless the URL has a port and can only be meant for TCP.
func (s *Redis) asRatelimit(socket string) {
	if s.URLFile != "" {
		return // such a file is weir's own: its URL tells a socket from an address
	}
	if s.URL == "" {
		s.URL = socket
	}
	if s.SocketType == "" && s.Type == redis.Single && !strings.Contains(s.URL, ":") {
		s.SocketType = "unix"
	}
}

// Warn logs what somebody who has replaced envoyproxy/ratelimit does not expect.
func (p Program) Warn(s *Settings, log *slog.Logger) {
	if p != dropIn {
		return
	}
	message := "started as ratelimit: the counters of envoyproxy/ratelimit do not carry over yet, so every limit begins at zero"
	if s.Algorithm == descriptors.FixedWindow {
		message += "; windows are fixed, and ALGORITHM=sliding_window gives rolling ones"
	}
	log.Warn(message)
}

// notYet are variables that this version does not read. Where it would be wrong to ignore one, weir does not start.
var notYet = []struct {
	name    string
	without string // the value that means the same as no value
	refuse  string // why weir does not start; "" only warns
}{
	{"GRPC_SERVER_USE_TLS", "false", "this version of weir serves plaintext only"},
	{"GRPC_CLIENT_TLS_CACERT", "", "this version of weir cannot check client certificates"},
	{"CONFIG_TYPE", "FILE", "this version of weir reads its configuration from files only"},
	{"KEY_FORMAT", "weir", "this version of weir writes no other keys than its own"},
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

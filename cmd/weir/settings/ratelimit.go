package settings

import (
	"log/slog"
	"os"
	"strings"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// Where envoyproxy/ratelimit looks for Redis if nothing else is said.
const (
	ratelimitSocket          = "/var/run/nutcracker/ratelimit.sock"
	ratelimitPerSecondSocket = "/var/run/nutcracker/ratelimitpersecond.sock"
)

// asRatelimit gives variables that are not set the defaults of envoyproxy/ratelimit, and takes what it takes.
func (s *Settings) asRatelimit() {
	isSet := func(name string) bool { _, set := os.LookupEnv(name); return set }
	s.Files.asRatelimit()
	if !isSet("USE_STATSD") {
		s.UseStatsd = true
	}
	if !isSet("LOG_LEVEL") {
		s.LogLevel = logLevel(slog.LevelWarn)
	}
	if !isSet("DEBUG_PPROF") {
		s.Profiles = true
	}
	if s.BackendType == "" {
		s.BackendType = "redis"
	}
	// Its file system may be read-only, and its Redis is the operator's: both are written to by whoever asks for it.
	if !isSet("DATA_DIR") {
		s.DataDir = ""
	}
	if !s.HistoryAsked {
		s.KeepHistory = s.HistoryVariable() != "" || s.DataDir != ""
	}
	s.Denials.asRatelimit(isSet)
	s.Redis.asRatelimit(ratelimitSocket)
	s.PerSecond.asRatelimit(ratelimitPerSecondSocket)
	s.tolerate()
}

// asRatelimit makes a socket the default, unless the URL has a port and can only be meant for TCP.
func (s *Redis) asRatelimit(socket string) {
	if s.URLFile != "" {
		return // such a file is weir's own: its URL tells a socket from an address
	}
	if s.URL == "" && s.SocketType != "tcp" { // there is no such socket for TCP
		s.URL = socket
	}
	if s.SocketType == "" && s.Type == topology.Single && !strings.Contains(s.URL, ":") {
		s.SocketType = "unix"
	}
}

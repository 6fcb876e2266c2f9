package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/weirproxy/weir/backend/incr"
	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
)

// backend returns where to count: what BACKEND_TYPE says or, where it says nothing, where variables name servers.
func (e Environment) backend() string {
	names := func(variables ...string) bool {
		return slices.ContainsFunc(variables, func(name string) bool { return e[name] != "" })
	}
	perSecond, _ := strconv.ParseBool(e["REDIS_PERSECOND"])
	switch {
	case names("BACKEND_TYPE"):
		return e["BACKEND_TYPE"]
	case perSecond, names("REDIS_URL", "REDIS_URL_FILE"):
		return "redis"
	case names("MEMCACHE_HOST_PORT", "MEMCACHE_SRV"):
		return "memcache"
	}
	return "memory"
}

// checkBackend checks the variables of the servers that count.
func (s *Settings) checkBackend() error {
	switch s.BackendType {
	case "redis":
		return s.checkRedis()
	case "memcache":
		return cmp.Or(s.Memcache.check(),
			require(s.Algorithm != descriptors.SlidingLog, "ALGORITHM", s.Algorithm.String(), noSlidingLog))
	}
	return require(s.BackendType == "memory", "BACKEND_TYPE", s.BackendType, "use memory, redis or memcache")
}

// connections returns the TLS of connections to a store whose variables begin with prefix, to servers of a name. Its error
// names the variables and the file at fault; what is wrong with the files later is logged.
func (t *ClientTLS) connections(prefix, name string, log *slog.Logger) (func() *tls.Config, error) {
	next, err := certs.Connections(certs.Files{Cert: t.Cert, Key: t.Key, CA: t.CA, SAN: name}, t.AnyName, log)
	if err != nil {
		err = fmt.Errorf("environment variables %s_TLS_CACERT, %[1]s_TLS_CLIENT_CERT, %[1]s_TLS_CLIENT_KEY: %w", prefix, err)
	}
	return next, err
}

// RatelimitKeys returns how long keys of envoyproxy/ratelimit last, and what a month is.
func (s *Settings) RatelimitKeys() incr.Keys {
	return incr.Keys{Jitter: s.ExpireJitter, CalendarMonths: s.CalendarMonths}
}

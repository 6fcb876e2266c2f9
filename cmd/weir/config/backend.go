package config

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/backend/memcached"
	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/cmd/weir/certs"
	"github.com/weirproxy/weir/descriptors"
)

// noSlidingLog is the error for a limit with algorithm sliding_log with BACKEND_TYPE=memcache.
const noSlidingLog = "memcached cannot count a sliding_log, of which each check would read and write every instant: " +
	"use sliding_window, which is exact to its precision"

// backend returns BACKEND_TYPE or, if it is not set, the type of the store whose servers the variables name.
func (e Environment) backend() string {
	perSecond, _ := strconv.ParseBool(e["REDIS_PERSECOND"])
	switch {
	case e["BACKEND_TYPE"] != "":
		return e["BACKEND_TYPE"]
	case perSecond, e["REDIS_URL"]+e["REDIS_URL_FILE"] != "":
		return "redis"
	case e["MEMCACHE_HOST_PORT"]+e["MEMCACHE_SRV"] != "":
		return "memcache"
	}
	return "memory"
}

// checkBackend checks the variables of the store.
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

// check returns an error that names the invalid variable, which begins with prefix.
func (s *Redis) check(prefix string) error {
	if s.URL == "" && s.URLFile == "" {
		return fmt.Errorf("environment variable %s_URL or %[1]s_URL_FILE must say where Redis is", prefix)
	}
	return cmp.Or(notNegative(prefix+"_POOL_SIZE", s.PoolSize), notNegative(prefix+"_TIMEOUT", s.Timeout))
}

func (s *Settings) checkRedis() error {
	err := cmp.Or(
		notNegative("REDIS_STARTUP_INITIAL_INTERVAL", s.BothRedis.StartupInitialInterval),
		notNegative("REDIS_STARTUP_MAX_INTERVAL", s.BothRedis.StartupMaxInterval),
		notNegative("REDIS_STARTUP_MAX_ELAPSED_TIME", s.BothRedis.StartupMaxElapsedTime),
		s.Redis.check("REDIS"),
	)
	if err == nil && s.BothRedis.UsePerSecond {
		err = s.PerSecond.check("REDIS_PERSECOND")
	}
	return err
}

// RedisConfig returns the configuration of one of the Redis. Its error names the variables and the invalid file. Later
// errors of TLS files are logged.
func (s *Settings) RedisConfig(one *Redis, log *slog.Logger) (topology.Config, error) {
	both := &s.BothRedis
	secure, err := both.TLSFiles.connections("REDIS", one.TLSServerName, log)
	return topology.Config{
		Type: one.Type, URL: one.URL, URLFile: one.URLFile, SocketType: one.SocketType,
		Auth: one.Auth, AuthFile: one.AuthFile, SentinelAuth: one.SentinelAuth,
		PoolSize: one.PoolSize, Timeout: one.Timeout, NodeLoss: s.NodeLoss,
		ProbePause: both.StartupInitialInterval, LongestProbePause: both.StartupMaxInterval,
		GiveUp: both.StartupMaxElapsedTime,
		TLS:    one.TLS, TLSConfig: secure,
		Log: log,
	}, err
}

// maxMemcachedConns bounds the connections to a server. Each connection sends all waiting checks at once, so fewer
// connections cost memcached less CPU.
const maxMemcachedConns = 4

var srvRecord = regexp.MustCompile(`^_.+?\._.+?\..+$`)

// check returns an error that names the invalid variable.
func (m *Memcache) check() error {
	switch {
	case len(m.HostPort) == 0 && m.SRV == "":
		return fmt.Errorf("environment variable MEMCACHE_HOST_PORT or MEMCACHE_SRV must say where memcached is")
	case len(m.HostPort) > 0 && m.SRV != "":
		return fmt.Errorf("environment variables MEMCACHE_HOST_PORT and MEMCACHE_SRV both say where memcached is: set one of them")
	case m.SRV != "" && !srvRecord.MatchString(m.SRV):
		return fmt.Errorf("environment variable MEMCACHE_SRV: %q is no name of an SRV record, such as _memcache._tcp.example.com", m.SRV)
	}
	for _, name := range m.HostPort {
		host, port, err := net.SplitHostPort(name)
		if isPath := strings.Contains(name, "/"); !isPath && (err != nil || host == "" || port == "") {
			return fmt.Errorf("environment variable MEMCACHE_HOST_PORT: %q is no host:port, nor the path of a socket", name)
		}
	}
	return cmp.Or(
		notNegative("MEMCACHE_SRV_REFRESH", m.SRVRefresh),
		require(m.Timeout > 0, "MEMCACHE_TIMEOUT", m.Timeout, "use a time above 0, such as 500ms"),
	)
}

// MemcachedConfig returns the configuration of memcached. Its error names the variables and the invalid file. Later
// errors of TLS files are logged.
func (s *Settings) MemcachedConfig(log *slog.Logger) (c memcached.Config, err error) {
	m := &s.Memcache
	c = memcached.Config{Servers: m.HostPort, SRV: m.SRV, Refresh: m.SRVRefresh, Timeout: m.Timeout,
		Connections: min(max(1, m.MaxConns), maxMemcachedConns), Keys: s.RatelimitKeys(), Log: log}
	if m.TLS {
		c.TLS, err = m.TLSFiles.connections("MEMCACHE", m.TLSServerName, log)
	}
	return c, err
}

// connections returns the TLS configuration of connections to a store whose variables begin with prefix, to servers of
// a name. Its error names the variables and the invalid file. Later errors of the files are logged.
func (t *ClientTLS) connections(prefix, name string, log *slog.Logger) (func() *tls.Config, error) {
	next, err := certs.Connections(certs.Files{Cert: t.ClientCert, Key: t.ClientKey, CA: t.CACert, SAN: name}, t.SkipHostnameVerification, log)
	if err != nil {
		err = fmt.Errorf("environment variables %s_TLS_CACERT, %[1]s_TLS_CLIENT_CERT, %[1]s_TLS_CLIENT_KEY: %w", prefix, err)
	}
	return next, err
}

// CanLease reports whether the store grants leases: a single Redis does, two of them and memcached do not.
func (s *Settings) CanLease() bool {
	return s.BackendType == "redis" && !s.BothRedis.UsePerSecond
}

// RatelimitKeys returns the configuration of envoyproxy/ratelimit's keys.
func (s *Settings) RatelimitKeys() ratelimit.Keys {
	return ratelimit.Keys{Jitter: s.ExpireJitter, CalendarMonths: s.CalendarMonths}
}

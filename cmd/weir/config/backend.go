package config

import (
	"cmp"

	"github.com/weirproxy/weir/backend/incr"
	"github.com/weirproxy/weir/descriptors"
)

// backend returns where to count: what BACKEND_TYPE says or, where it says nothing, where variables name servers.
func (s *Settings) backend() string {
	switch {
	case s.BackendType != "":
		return s.BackendType
	case s.Redis.namesServers(), s.BothRedis.Persecond:
		return "redis"
	case s.Memcache.namesServers():
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
		return cmp.Or(s.Memcache.check(), require(s.Algorithm != descriptors.SlidingLog, "ALGORITHM", s.Algorithm.String(), noLogs))
	}
	return require(s.BackendType == "memory", "BACKEND_TYPE", s.BackendType, "use memory, redis or memcache")
}

// RatelimitKeys returns how long keys of envoyproxy/ratelimit last, and what a month is.
func (s *Settings) RatelimitKeys() incr.Keys {
	return incr.Keys{Jitter: s.ExpireJitter, CalendarMonths: s.CalendarMonths}
}

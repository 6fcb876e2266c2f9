package config

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/weirproxy/weir/backend/redis/topology"
)

// check returns an error that names the variable at fault, which begins with prefix.
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

// RedisConfig returns how one of the Redis is reached. Its error names the variables and the file at fault; what is
// wrong with files of TLS later is logged.
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

package settings

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/topology"
)

// Redis are the variables that say how one Redis is reached: they begin with REDIS_ or REDIS_PERSECOND_.
type Redis struct {
	Type         topology.Type `split_words:"true" default:"single"`
	URL          string        `split_words:"true"`
	URLFile      string        `split_words:"true"`
	SocketType   string        `split_words:"true"`
	Auth         string        `split_words:"true"`
	AuthFile     string        `split_words:"true"`
	SentinelAuth string        `split_words:"true"`
	PoolSize     int           `split_words:"true" default:"20"`
	Timeout      time.Duration `split_words:"true" default:"500ms"`
	TLS          bool          `split_words:"true"`

	TLSServerName string `split_words:"true"`

	// What envoyproxy/ratelimit has to be told, and weir does by itself.
	PipelineWindow             time.Duration `split_words:"true" default:"0"`
	PipelineLimit              int           `split_words:"true" default:"0"`
	ClusterPipelineParallelism int           `split_words:"true" default:"1"`
	PoolOnEmptyBehavior        string        `split_words:"true" default:"WAIT"`
}

// BothRedis are the variables that begin with REDIS_ and exist once: they hold for both Redis.
type BothRedis struct {
	Persecond bool `split_words:"true" default:"false"`

	TLSCacert                   string `split_words:"true"`
	TLSClientCert               string `split_words:"true"`
	TLSClientKey                string `split_words:"true"`
	TLSSkipHostnameVerification bool   `split_words:"true"`

	StartupInitialInterval      time.Duration `split_words:"true" default:"1s"`
	StartupMaxInterval          time.Duration `split_words:"true" default:"30s"`
	StartupMaxElapsedTime       time.Duration `split_words:"true" default:"0"`
	HealthCheckActiveConnection bool          `split_words:"true" default:"false"`

	CloseConnectionOnReadonlyError bool `split_words:"true" default:"false"` // what weir always does
}

// namesServers reports whether a variable names the servers of Redis.
func (s *Redis) namesServers() bool { return s.URL != "" || s.URLFile != "" }

// check checks what the store does not check. The variables begin with prefix.
func (s *Redis) check(prefix string) error {
	switch {
	case !s.namesServers():
		return fmt.Errorf("environment variable %s_URL or %[1]s_URL_FILE must say where Redis is", prefix)
	case s.PoolSize < 0:
		return fmt.Errorf("environment variable %s_POOL_SIZE=%d: it cannot be negative", prefix, s.PoolSize)
	case s.ClusterPipelineParallelism < 0:
		return fmt.Errorf("environment variable %s_CLUSTER_PIPELINE_PARALLELISM=%d: it cannot be negative; weir asks all "+
			"servers at the same time, whatever it says", prefix, s.ClusterPipelineParallelism)
	case !strings.EqualFold(s.PoolOnEmptyBehavior, "wait"):
		return fmt.Errorf("environment variable %s_POOL_ON_EMPTY_BEHAVIOR=%q: use WAIT; weir opens no more than "+
			"%[1]s_POOL_SIZE connections, and waits for one at most %[1]s_TIMEOUT", prefix, s.PoolOnEmptyBehavior)
	}
	return notNegative(prefix+"_", durations{"TIMEOUT": s.Timeout, "PIPELINE_WINDOW": s.PipelineWindow})
}

// checkBackend decides where to count, and checks the variables of Redis if it is there.
func (s *Settings) checkBackend() error {
	if s.BackendType == "" && (s.Redis.namesServers() || s.BothRedis.Persecond) {
		s.BackendType = "redis"
	}
	s.BackendType = cmp.Or(s.BackendType, "memory")
	if s.BackendType != "redis" {
		return require(s.BackendType == "memory", "BACKEND_TYPE", s.BackendType, "use memory or redis")
	}
	err := notNegative("REDIS_STARTUP_", durations{"INITIAL_INTERVAL": s.BothRedis.StartupInitialInterval,
		"MAX_INTERVAL": s.BothRedis.StartupMaxInterval, "MAX_ELAPSED_TIME": s.BothRedis.StartupMaxElapsedTime})
	if err = cmp.Or(err, s.Redis.check("REDIS")); err != nil || !s.BothRedis.Persecond {
		return err
	}
	return s.PerSecond.check("REDIS_PERSECOND")
}

// check checks how long keys of envoyproxy/ratelimit last.
func (k *PlainKeys) check() error {
	return require(k.ExpireJitter >= 0, "EXPIRATION_JITTER_MAX_SECONDS", k.ExpireJitter, "it cannot be negative; 0 is none")
}

// Windows returns how long keys of envoyproxy/ratelimit last, and what a month is.
func (k *PlainKeys) Windows() incr.Keys {
	return incr.Keys{Jitter: k.ExpireJitter, CalendarMonths: k.CalendarMonths}
}

// RedisConfig returns how one of the Redis is reached.
func (s *Settings) RedisConfig(one *Redis, log *slog.Logger) topology.Config {
	both, prefix := &s.BothRedis, "REDIS_"
	if one == &s.PerSecond {
		prefix = "REDIS_PERSECOND_"
	}
	return topology.Config{
		Type: one.Type, URL: one.URL, URLFile: one.URLFile, SocketType: one.SocketType,
		Auth: one.Auth, AuthFile: one.AuthFile, SentinelAuth: one.SentinelAuth,
		PoolSize: one.PoolSize, Timeout: one.Timeout, NodeLoss: s.NodeLoss,
		ProbePause: both.StartupInitialInterval, LongestProbePause: both.StartupMaxInterval,
		GiveUp: both.StartupMaxElapsedTime,
		TLS: topology.TLSConfig{
			Enabled: one.TLS, CAFile: both.TLSCacert, CertFile: both.TLSClientCert, KeyFile: both.TLSClientKey,
			ServerName: one.TLSServerName, SkipHostnameVerification: both.TLSSkipHostnameVerification,
		},
		Log: log, Variables: topology.Variables{URL: prefix + "URL", URLFile: prefix + "URL_FILE", Type: prefix + "TYPE"},
	}
}

package settings

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/redis/incr"
	"github.com/weirproxy/weir/backend/redis/topology"
	"github.com/weirproxy/weir/descriptors"
)

func TestEveryVariableOfRedisIsReadForBoth(t *testing.T) {
	for name, value := range map[string]string{
		"TYPE": "CLUSTER", "URL": "a:1", "SOCKET_TYPE": "tcp", "AUTH": "ann:secret", "SENTINEL_AUTH": "sam:secret",
		"POOL_SIZE": "7", "TIMEOUT": "70ms", "TLS": "true", "TLS_SERVER_NAME": "redis.internal", "PIPELINE_WINDOW": "150us", "PIPELINE_LIMIT": "8",
		"CLUSTER_PIPELINE_PARALLELISM": "0", "POOL_ON_EMPTY_BEHAVIOR": "wait",
	} {
		t.Setenv("REDIS_"+name, value)
		t.Setenv("REDIS_PERSECOND_"+name, value)
	}
	t.Setenv("REDIS_PERSECOND_URL", "b:1")
	for name, value := range map[string]string{
		"REDIS_PERSECOND": "true", "RING_ON_NODE_LOSS": "pin",
		"REDIS_TLS_CACERT": "ca", "REDIS_TLS_CLIENT_CERT": "cert", "REDIS_TLS_CLIENT_KEY": "key",
		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "true",
		"REDIS_STARTUP_INITIAL_INTERVAL":       "2s", "REDIS_STARTUP_MAX_INTERVAL": "20s",
		"REDIS_STARTUP_MAX_ELAPSED_TIME": "200s", "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "true",
		"REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR": "true",
	} {
		t.Setenv(name, value)
	}
	s := mustRead(t, "weir")
	want := topology.Config{
		Type: topology.Cluster, URL: "a:1", SocketType: "tcp", Auth: "ann:secret", SentinelAuth: "sam:secret",
		PoolSize: 7, Timeout: 70 * time.Millisecond, NodeLoss: topology.Pin,
		ProbePause: 2 * time.Second, LongestProbePause: 20 * time.Second, GiveUp: 200 * time.Second,
		TLS: topology.TLSConfig{Enabled: true, CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "redis.internal",
			SkipHostnameVerification: true},
		Variables: topology.Variables{URL: "REDIS_URL", URLFile: "REDIS_URL_FILE", Type: "REDIS_TYPE"},
	}
	if got := s.RedisConfig(&s.Redis, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("Redis is reached by\n%+v, want\n%+v", got, want)
	}
	want.URL = "b:1"
	want.Variables = topology.Variables{URL: "REDIS_PERSECOND_URL", URLFile: "REDIS_PERSECOND_URL_FILE", Type: "REDIS_PERSECOND_TYPE"}
	if got := s.RedisConfig(&s.PerSecond, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("the Redis for limits per second is reached by\n%+v, want\n%+v", got, want)
	}
	if !s.BothRedis.Persecond || !s.BothRedis.HealthCheckActiveConnection || s.BackendType != "redis" {
		t.Errorf("the settings are %+v", s)
	}
}

func TestVariablesOfARedisThatIsNotUsedAreNotChecked(t *testing.T) {
	t.Setenv("REDIS_PERSECOND_POOL_SIZE", "-1")
	t.Setenv("REDIS_URL", "a:1")
	mustRead(t, "weir") // without REDIS_PERSECOND
	t.Setenv("BACKEND_TYPE", "memory")
	t.Setenv("REDIS_POOL_SIZE", "-1")
	mustRead(t, "weir")
}

func TestKeysOfRatelimitLastAsTheVariablesSay(t *testing.T) {
	t.Setenv("REDIS_URL", "redis:6379")
	s := mustRead(t, dropIn)
	if s.Keys().Format != descriptors.KeysOfRatelimit || s.Windows() != (incr.Keys{Jitter: 300}) {
		t.Errorf("started as ratelimit keys are %v, and last by %+v; want envoyproxy/ratelimit's, with its jitter of 300 s",
			s.Keys().Format, s.Windows())
	}
	t.Setenv("EXPIRATION_JITTER_MAX_SECONDS", "0")
	t.Setenv("USE_CALENDAR_MONTH_RATE_LIMIT", "true")
	for _, tc := range []struct {
		format, backend string
		lines           int
	}{{"ratelimit", "redis", 0}, {"weir", "redis", 1}, {"ratelimit", "memory", 1}} {
		t.Setenv("KEY_FORMAT", tc.format)
		t.Setenv("BACKEND_TYPE", tc.backend)
		s = mustRead(t, "weir")
		if s.Windows() != (incr.Keys{CalendarMonths: true}) {
			t.Errorf("keys last by %+v; want months of the calendar, and no jitter", s.Windows())
		}
		var log strings.Builder
		s.WarnOfIdle([]string{"USE_CALENDAR_MONTH_RATE_LIMIT=true"}, slog.New(slog.NewTextHandler(&log, nil)))
		if got := strings.Count(log.String(), "USE_CALENDAR_MONTH_RATE_LIMIT"); got != tc.lines {
			t.Errorf("with %s in %s, %d lines tell that months have 30 days all the same; want %d", tc.format, tc.backend, got, tc.lines)
		}
	}
}

package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestEveryVariableOfRedisIsReadForBoth(t *testing.T) {
	e := env("REDIS_PERSECOND=true RING_ON_NODE_LOSS=pin REDIS_TLS_CACERT=ca REDIS_TLS_CLIENT_CERT=cert REDIS_TLS_CLIENT_KEY=key " +
		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true REDIS_STARTUP_INITIAL_INTERVAL=2s REDIS_STARTUP_MAX_INTERVAL=20s " +
		"REDIS_STARTUP_MAX_ELAPSED_TIME=200s REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true")
	for name, value := range map[string]string{
		"TYPE": "CLUSTER", "URL": "a:1", "SOCKET_TYPE": "tcp", "AUTH": "ann:secret", "SENTINEL_AUTH": "sam:secret",
		"POOL_SIZE": "7", "TIMEOUT": "70ms", "TLS": "true", "TLS_SERVER_NAME": "redis.internal",
	} {
		e["REDIS_"+name], e["REDIS_PERSECOND_"+name] = value, value
	}
	e["REDIS_PERSECOND_URL"] = "b:1"
	s, err := Read(e)
	if err != nil {
		t.Fatal(err)
	}
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

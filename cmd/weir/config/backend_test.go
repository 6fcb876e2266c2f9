package config

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/redis/topology"
)

func TestBothRedisReadEveryVariable(t *testing.T) {
	authority, dir := certstest.New(t, "authority"), t.TempDir()
	cert, key := authority.Issue(t, "weir")
	certstest.Mount(t, dir, map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority.PEM})
	file := func(name string) string { return filepath.Join(dir, name) }
	e := env("REDIS_PERSECOND=true RING_ON_NODE_LOSS=pin REDIS_TLS_CACERT=" + file("ca.crt") +
		" REDIS_TLS_CLIENT_CERT=" + file("tls.crt") + " REDIS_TLS_CLIENT_KEY=" + file("tls.key") + " " +
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
	reached := func(one *Redis) topology.Config {
		t.Helper()
		c, err := s.RedisConfig(one, nil)
		if err != nil {
			t.Fatal(err)
		}
		if by := c.TLSConfig(); by.ServerName != "redis.internal" || by.RootCAs == nil || len(by.Certificates) != 1 {
			t.Errorf("TLS to Redis is %+v", by)
		}
		unnamed := *one
		unnamed.TLSServerName = ""
		if c, err := s.RedisConfig(&unnamed, nil); err != nil || c.TLSConfig().VerifyConnection == nil {
			t.Errorf("TLS to Redis checks names, though REDIS_TLS_SKIP_HOSTNAME_VERIFICATION is true: %v", err)
		}
		c.TLSConfig = nil
		return c
	}
	want := topology.Config{
		Type: topology.Cluster, URL: "a:1", SocketType: "tcp", Auth: "ann:secret", SentinelAuth: "sam:secret",
		PoolSize: 7, Timeout: 70 * time.Millisecond, NodeLoss: topology.Pin,
		ProbePause: 2 * time.Second, LongestProbePause: 20 * time.Second, GiveUp: 200 * time.Second,
		TLS: true,
	}
	if got := reached(&s.Redis); !reflect.DeepEqual(got, want) {
		t.Errorf("Redis is reached by\n%+v, want\n%+v", got, want)
	}
	want.URL = "b:1"
	if got := reached(&s.PerSecond); !reflect.DeepEqual(got, want) {
		t.Errorf("the Redis for limits per second is reached by\n%+v, want\n%+v", got, want)
	}
	if !s.BothRedis.UsePerSecond || !s.BothRedis.HealthCheckActiveConnection || s.BackendType != "redis" {
		t.Errorf("the settings are %+v", s)
	}
}

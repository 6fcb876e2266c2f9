package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/backend/redis"
	"github.com/weirproxy/weir/server/stats"
)

// redisSettings are the variables that say how Redis is reached.
type redisSettings struct {
	Type         redisType     `envconfig:"REDIS_TYPE" default:"single"`
	URL          string        `envconfig:"REDIS_URL"`
	URLFile      string        `envconfig:"REDIS_URL_FILE"`
	SocketType   string        `envconfig:"REDIS_SOCKET_TYPE"`
	Auth         string        `envconfig:"REDIS_AUTH"`
	AuthFile     string        `envconfig:"REDIS_AUTH_FILE"`
	SentinelAuth string        `envconfig:"REDIS_SENTINEL_AUTH"`
	PoolSize     int           `envconfig:"REDIS_POOL_SIZE" default:"20"`
	Timeout      time.Duration `envconfig:"REDIS_TIMEOUT" default:"500ms"`
	NodeLoss     nodeLoss      `envconfig:"RING_ON_NODE_LOSS" default:"remap"`

	TLS              bool   `envconfig:"REDIS_TLS"`
	TLSCert          string `envconfig:"REDIS_TLS_CLIENT_CERT"`
	TLSKey           string `envconfig:"REDIS_TLS_CLIENT_KEY"`
	TLSCA            string `envconfig:"REDIS_TLS_CACERT"`
	SkipVerification bool   `envconfig:"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"`
}

func (s *redisSettings) config(log *slog.Logger) redis.Config {
	return redis.Config{
		Type: redis.Type(s.Type), URL: s.URL, URLFile: s.URLFile, SocketType: s.SocketType,
		Auth: s.Auth, AuthFile: s.AuthFile, SentinelAuth: s.SentinelAuth,
		PoolSize: s.PoolSize, Timeout: s.Timeout, NodeLoss: redis.NodeLoss(s.NodeLoss),
		TLS: redis.TLSConfig{
			Enabled: s.TLS, CAFile: s.TLSCA, CertFile: s.TLSCert, KeyFile: s.TLSKey,
			SkipHostnameVerification: s.SkipVerification,
		},
		Log: log,
	}
}

func openRedis(ctx context.Context, set *settings, metrics *stats.Metrics, log *slog.Logger) (*redis.Store, error) {
	store, err := redis.Open(ctx, set.Redis.config(log))
	if err != nil {
		return nil, fmt.Errorf("opening the counters: %w", err)
	}
	for _, m := range []struct {
		name, help string
		total      func(redis.Stats) uint64
	}{
		{"weir_redis_batches_total", "Batches of checks sent to Redis.", func(s redis.Stats) uint64 { return s.Batches }},
		{"weir_redis_checks_total", "Checks in them.", func(s redis.Stats) uint64 { return s.Checks }},
		{"weir_redis_redirects_total", "Redirects of a Redis Cluster that a check followed.",
			func(s redis.Stats) uint64 { return s.Redirects }},
		{"weir_redis_resent_total", "Checks sent again, as it was proven that they had not run.",
			func(s redis.Stats) uint64 { return s.Resent }},
		{"weir_redis_dropped_total", "Checks that were not sent because their callers had left.",
			func(s redis.Stats) uint64 { return s.Dropped }},
		{"weir_redis_unavailable_total", "Checks that Redis gave no answer to.",
			func(s redis.Stats) uint64 { return s.Unavailable }},
	} {
		metrics.Counter(m.name, m.help, nil, func() float64 { return float64(m.total(store.Stats())) })
	}
	return store, nil
}

// redisType is a redis.Type that envconfig can read.
type redisType redis.Type

// Decode reads the type's name.
func (t *redisType) Decode(value string) error {
	parsed, err := redis.ParseType(value)
	*t = redisType(parsed)
	return err
}

// nodeLoss is a redis.NodeLoss that envconfig can read.
type nodeLoss redis.NodeLoss

// Decode reads remap or pin.
func (n *nodeLoss) Decode(value string) error {
	parsed, err := redis.ParseNodeLoss(value)
	*n = nodeLoss(parsed)
	return err
}

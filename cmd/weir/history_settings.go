package main

import (
	"fmt"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/redis"
)

// historySettings are the variables that begin with HISTORY_. They say how the history of hits is kept.
type historySettings struct {
	FlushInterval time.Duration `split_words:"true" default:"15s"`
	Downsample    *bool         `split_words:"true"` // nil: only what is not in Redis

	KeepMinutes     time.Duration `split_words:"true" default:"24h"`
	KeepFiveMinutes time.Duration `envconfig:"KEEP_5_MINUTES" default:"168h"`
	KeepHours       time.Duration `split_words:"true" default:"720h"`
	Retention       time.Duration `split_words:"true" default:"87600h"`
	MaxPoints       int           `split_words:"true" default:"5000"`
}

// check says which variable is wrong. The history is kept by the minute, so a longer interval would blur it.
func (s *historySettings) check() error {
	if s.FlushInterval < time.Second || s.FlushInterval > time.Minute {
		return fmt.Errorf("environment variable HISTORY_FLUSH_INTERVAL=%v: use 1s to 1m", s.FlushInterval)
	}
	if s.MaxPoints < 1 {
		return fmt.Errorf("environment variable HISTORY_MAX_POINTS=%d: at least 1 is needed", s.MaxPoints)
	}
	keep := s.keep()
	if err := keep.Check(); err != nil {
		return fmt.Errorf("environment variables HISTORY_KEEP_MINUTES, HISTORY_KEEP_5_MINUTES, HISTORY_KEEP_HOURS, HISTORY_RETENTION: %w", err)
	}
	return nil
}

func (s *historySettings) keep() history.Keep {
	return history.Keep{
		Ages:      [history.Tiers]time.Duration{s.KeepMinutes, s.KeepFiveMinutes, s.KeepHours, s.Retention},
		MaxPoints: s.MaxPoints,
	}
}

// historyInRedis says whether the history is in Redis, be it another one than the counters', or beside counters in memory.
func (s *settings) historyInRedis() bool {
	return s.HistoryURL != "" || s.BackendType == "redis"
}

// historyRedis is how the Redis of the history is reached: as that of the counters, but for its own URL if it has one.
func (s *settings) historyRedis() redis.Config {
	c := s.redisConfig(&s.Redis, nil)
	if s.HistoryURL != "" {
		c.URL, c.URLFile = s.HistoryURL, ""
	}
	return c
}

// downsamples says whether weir serve downsamples: a store that is shared by replicas is better served by one job.
func (s *settings) downsamples() bool {
	if s.History.Downsample != nil {
		return *s.History.Downsample
	}
	return !s.historyInRedis()
}

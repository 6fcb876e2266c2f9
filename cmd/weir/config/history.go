package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/backend/history/redishistory"
)

// check returns an error that names the invalid variable. A flush interval of more than a minute would mix hits of
// several minutes.
func (s *History) check() error {
	keep := s.RetentionByTier()
	err := keep.Check()
	if err != nil {
		err = fmt.Errorf("environment variables HISTORY_KEEP_MINUTES, HISTORY_KEEP_5_MINUTES, HISTORY_KEEP_HOURS, "+
			"HISTORY_RETENTION: %w", err)
	}
	interval, concurrency, timeout := s.FlushInterval, s.QueryConcurrency, s.QueryTimeout
	return cmp.Or(
		require(interval >= time.Second && interval <= time.Minute, "HISTORY_FLUSH_INTERVAL", interval, "use 1s to 1m"),
		require(s.MaxPoints >= 1, "HISTORY_MAX_POINTS", s.MaxPoints, "at least 1 is needed"),
		require(s.Values >= 1 && s.Values <= 1000, "HISTORY_VALUES", s.Values, "use 1 to 1000"),
		require(concurrency >= 0 && concurrency <= 100, "HISTORY_QUERY_CONCURRENCY", concurrency, "use 0 to 100"),
		require(s.QueryMaxSamples >= 1, "HISTORY_QUERY_MAX_SAMPLES", s.QueryMaxSamples, "at least 1 is needed"),
		require(timeout >= time.Second && timeout <= time.Hour, "HISTORY_QUERY_TIMEOUT", timeout, "use 1s to 1h"),
		err)
}

// RetentionByTier returns how long the history keeps buckets of each tier, and how many points of a series.
func (s *History) RetentionByTier() history.Retention {
	return history.Retention{
		Ages:      [history.Tiers]time.Duration{s.KeepMinutes, s.KeepFiveMinutes, s.KeepHours, s.Retention},
		MaxPoints: s.MaxPoints,
	}
}

// HistoryVariable returns the name of the variable with a separate Redis for the history, "" if none is set.
func (s *Settings) HistoryVariable() string {
	switch {
	case s.HistoryURLFile != "":
		return "REDIS_HISTORY_URL_FILE"
	case s.HistoryURL != "":
		return "REDIS_HISTORY_URL"
	}
	return ""
}

// HistoryInRedis reports whether the history is in Redis: a separate one, or that of the counters.
func (s *Settings) HistoryInRedis() bool {
	return s.HistoryVariable() != "" || s.BackendType == "redis" && !(s.HistoryInDataDir && s.DataDir != "")
}

// HistoryRemedy returns which variable to set for a history, and where the history then is.
func (s *Settings) HistoryRemedy() string {
	switch variable := s.HistoryVariable(); {
	case variable != "":
		return "set HISTORY=true to keep one in the Redis of " + variable
	case s.HistoryInRedis():
		return "set HISTORY=true to keep one in the Redis of the counters (in another: REDIS_HISTORY_URL as well)"
	case s.DataDir != "":
		return "set HISTORY=true to keep one in DATA_DIR=" + s.DataDir
	}
	return "set HISTORY=true to keep one in memory until the process ends (in a file: DATA_DIR as well)"
}

// RedisHistory returns the configuration of the history in Redis: that of the counters, but with the history's URL if
// there is one. Its error is that of RedisConfig.
func (s *Settings) RedisHistory(log *slog.Logger) (redishistory.Config, error) {
	servers, err := s.RedisConfig(&s.Redis, log)
	c := redishistory.Config{Redis: servers, Retention: s.History.RetentionByTier()}
	if s.HistoryVariable() != "" {
		c.Redis.URL, c.Redis.URLFile = s.HistoryURL, s.HistoryURLFile
	}
	return c, err
}

// Downsamples reports whether weir serve downsamples. For a store that replicas share, one job should do it instead.
func (s *Settings) Downsamples() bool {
	if s.History.Downsample != nil {
		return *s.History.Downsample
	}
	return !s.HistoryInRedis()
}

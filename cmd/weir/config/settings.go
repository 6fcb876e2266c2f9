// Package config reads weir's environment, and makes the configurations of its parts from it.
package config

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit/statsd"
	"github.com/weirproxy/weir/server/rls"
)

// Settings are the settings in the environment.
type Settings struct {
	Variables
	Compatibility

	mogrifiers []statsd.Mogrifier
}

// Compatibility changes weir's behavior so that it can replace another program. The zero value changes nothing.
type Compatibility struct {
	StartLevel slog.Level                          // level of log lines about a successful start
	RenameLogs func([]string, slog.Attr) slog.Attr // ReplaceAttr of slog; nil for none
	Ports      server.Config                       // settings of the ports that have no variables

	HealthByStore          bool // [server.HealthRules.ByStore]
	FilesByPrefix          bool // [Settings.ConfigFiles] returns a prefix
	EmptyConfig            bool // a directory without files is a configuration, under which every request is OK
	HistoryInDataDir       bool // the history is in DATA_DIR, if set, rather than in the Redis of the counters
	AlwaysCountAsRatelimit bool // count as that program does, even without a sink
	OptionalSinks          bool // a failure to serve statistics for Prometheus does not end the process
}

// Read reads an environment. Its error names the variable and its valid values. LogsJSON is valid even after an error.
func Read(e Environment) (Settings, error) {
	s := Settings{Variables: Variables{LogFormat: e["LOG_FORMAT"]}}
	if err := e.fill(&s.Variables); err != nil {
		return s, err
	}
	s.BackendType = e.backend()
	return s, cmp.Or(s.check(), s.readMogrifiers(e))
}

// check returns an error that names the first invalid variable.
func (s *Settings) check() error {
	return cmp.Or(
		s.checkBackend(),
		s.checkSource(),
		notNegative("EXPIRATION_JITTER_MAX_SECONDS", s.ExpireJitter),
		s.Access(nil).Check(),
		s.checkTLS(),
		s.History.check(),
		s.Statistics.check(),
		s.Telemetry.check(),
		require(s.DenialLogEvery == 0 || s.DenialLogEvery >= time.Second, "DENIAL_LOG_INTERVAL", s.DenialLogEvery,
			"use at least 1s, or 0 to log no denials"),
		require(s.NearRatio >= 0 && s.NearRatio <= 1, "NEAR_LIMIT_RATIO", s.NearRatio, "use a number from 0 to 1"),
		checkHeader("LIMIT_LIMIT_HEADER", s.LimitHeader),
		checkHeader("LIMIT_REMAINING_HEADER", s.RemainingHeader),
		checkHeader("LIMIT_RESET_HEADER", s.ResetHeader),
		checkHeader("LIMIT_REQUEST_LIMIT_HEADER", s.RequestLimitHeader),
		checkHeader("LIMIT_REQUEST_REMAINING_HEADER", s.RequestRemainingHeader),
		checkHeader("LIMIT_REQUEST_RESET_HEADER", s.RequestResetHeader),
		require(s.MemoryMaxKeys >= 1, "MEMORY_MAX_KEYS", s.MemoryMaxKeys, "at least 1 is needed"),
		notNegative("LOCAL_CACHE_SIZE_IN_BYTES", s.LocalCacheSize),
		require(s.Replicas >= 1, "REPLICAS", s.Replicas, "at least 1 is needed, this process"),
		require(s.MaxConnections >= 0, "GRPC_MAX_CONNECTIONS", s.MaxConnections, "use 0 for no bound, or a number of connections"),
		require(s.MaxConnectionsPerClient >= 0, "GRPC_MAX_CONNECTIONS_PER_CLIENT", s.MaxConnectionsPerClient,
			"use 0 for no bound, or a number of connections"),
		require(s.Quotas.TTL >= 10*time.Second && s.Quotas.TTL%time.Second == 0, "RLQS_TTL", s.Quotas.TTL, "use whole seconds, at least 10s"),
		require(min(s.Quotas.MaxStreams, s.Quotas.MaxBuckets, s.Quotas.MaxStreamBuckets) >= 1, "RLQS_MAX_STREAMS, _BUCKETS, _STREAM_BUCKETS",
			s.Quotas.MaxStreams, "use at least 1"),
		require(s.LogsJSON() || strings.EqualFold(s.LogFormat, "text"), "LOG_FORMAT", s.LogFormat, "use text or json"),
		checkAge("GRPC_MAX_CONNECTION_AGE", s.MaxConnectionAge),
		checkAge("GRPC_MAX_CONNECTION_AGE_GRACE", s.MaxConnectionAgeGrace),
		notNegative("DRAIN_DELAY", s.DrainDelay),
		notNegative("DRAIN_TIMEOUT", s.DrainTimeout),
		notNegative("DATA_SAVE_INTERVAL", s.DataSaveInterval),
	)
}

// checkHeader returns an error if the name of a header is not valid in HTTP.
func checkHeader(variable, name string) error {
	return require(name == "" || httpguts.ValidHeaderFieldName(name), variable, name, "use the name of an HTTP header")
}

// Limits returns the options of the limiter.
func (s *Settings) Limits() limit.Options {
	return limit.Options{
		Algorithm: s.Algorithm, Shadow: s.ShadowMode, Quota: s.QuotaMode, RefundOthers: s.RefundOthers,
		NearRatio: s.NearRatio, CanLease: s.CanLease(), Leases: s.Leases,
	}
}

// Answers returns the options of answers.
func (s *Settings) Answers() rls.Options {
	o := rls.Options{DynamicMetadata: s.DynamicMetadata, DeniedMetadata: s.DenialMetadata,
		Headers: rls.Headers{RetryAfter: s.RetryAfter}}
	if s.LimitHeaders {
		o.Headers.Response = rls.HeaderNames{Limit: s.LimitHeader, Remaining: s.RemainingHeader, Reset: s.ResetHeader}
	}
	if s.RequestHeadersOn {
		o.Headers.Request = rls.HeaderNames{
			Limit: s.RequestLimitHeader, Remaining: s.RequestRemainingHeader, Reset: s.RequestResetHeader}
	}
	return o
}

// Logger returns a logger with LOG_LEVEL and LOG_FORMAT.
func (s *Settings) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel), ReplaceAttr: s.RenameLogs}
	if s.LogsJSON() {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// LogsJSON reports whether each line of the log is a JSON object.
func (s *Settings) LogsJSON() bool { return strings.EqualFold(s.LogFormat, "json") }

type logLevel slog.Level

// Decode reads a level by its name in envoyproxy/ratelimit, in any case.
func (l *logLevel) Decode(value string) error {
	level, known := map[string]slog.Level{
		"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
		"warning": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError, "panic": slog.LevelError,
	}[strings.ToLower(value)]
	if *l = logLevel(level); !known {
		return fmt.Errorf("%q is not a log level: use one of debug, info, warning, error", value)
	}
	return nil
}

// DenialLog returns the logger of denials.
func (s *Settings) DenialLog(r *denials.Recorder, log *slog.Logger) *denials.Log {
	return &denials.Log{Recorder: r, Interval: s.DenialLogEvery, Values: s.DenialLogValues, To: log}
}

package config

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/weirproxy/weir/server/denials"
)

// Logger returns a logger that writes as LOG_LEVEL and LOG_FORMAT say.
func (s *Settings) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel), ReplaceAttr: s.RenameLogs}
	if s.LogsJSON() {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// LogsJSON reports whether each line of the log is an object in JSON. It holds after an error of Read too.
func (s *Settings) LogsJSON() bool { return strings.EqualFold(s.LogFormat, "json") }

type logLevel slog.Level

// EnvDecode reads a level by the names that envoyproxy/ratelimit has for it, in any case.
func (l *logLevel) EnvDecode(value string) error {
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

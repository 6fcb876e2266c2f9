package settings

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
)

// Logger returns a logger that writes as LOG_LEVEL and LOG_FORMAT say: as ratelimit in envoyproxy/ratelimit's words for
// levels, and under its keys in JSON.
func (s *Settings) Logger(to io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(s.LogLevel)}
	inJSON := s.LogsJSON()
	if s.as == dropIn {
		options.ReplaceAttr = ratelimitWords
		if inJSON {
			options.ReplaceAttr = ratelimitKeys
		}
	}
	if inJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options)) // as ratelimit for any other value too, of which WarnOfIdle tells
}

// StartLevel returns the level of the lines about a start at which nothing is wrong. As ratelimit they are written at the
// default LOG_LEVEL, warning, as well, at which envoyproxy/ratelimit tells where it listens.
func (s *Settings) StartLevel() slog.Level {
	if s.as == dropIn {
		return shownInfo
	}
	return slog.LevelInfo
}

// shownInfo is a level that shows as info, and where warnings show.
const shownInfo = slog.LevelWarn + 1

// LogsJSON reports whether each line of the log is an object in JSON. It is right after an error of Read as well.
func (s *Settings) LogsJSON() bool { return strings.EqualFold(s.LogFormat, "json") }

func isLogFormat(name string) bool {
	return strings.EqualFold(name, "text") || strings.EqualFold(name, "json")
}

// ratelimitKeys gives a line's own attributes the keys that they have in envoyproxy/ratelimit's JSON.
func ratelimitKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch kind := a.Value.Kind(); {
	case a.Key == slog.TimeKey && kind == slog.KindTime:
		return slog.String("@timestamp", a.Value.Time().Format(time.RFC3339Nano))
	case a.Key == slog.MessageKey && kind == slog.KindString:
		a.Key = "@message"
	}
	return ratelimitWords(groups, a)
}

// ratelimitWords gives levels the words that envoyproxy/ratelimit has for them.
func ratelimitWords(groups []string, a slog.Attr) slog.Attr {
	level, isLevel := a.Value.Any().(slog.Level)
	if len(groups) > 0 || a.Key != slog.LevelKey || !isLevel {
		return a
	}
	word := strings.ToLower(level.String())
	switch level {
	case slog.LevelWarn:
		word = "warning"
	case shownInfo:
		word = "info"
	}
	return slog.String(slog.LevelKey, word)
}

type logLevel slog.Level

// Decode reads a level by the names that envoyproxy/ratelimit has for it, in any case.
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

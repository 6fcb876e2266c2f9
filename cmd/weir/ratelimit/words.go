package ratelimit

import (
	"log/slog"
	"strings"
	"time"
)

// shownInfo is printed as info wherever warnings are printed, as envoyproxy/ratelimit does where it listens.
const shownInfo = slog.LevelWarn + 1

// renameKeys gives a line's own attributes the keys that they have in envoyproxy/ratelimit's JSON.
func renameKeys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch kind := a.Value.Kind(); {
	case a.Key == slog.TimeKey && kind == slog.KindTime:
		return slog.String("@timestamp", a.Value.Time().Format(time.RFC3339Nano))
	case a.Key == slog.MessageKey && kind == slog.KindString:
		a.Key = "@message"
	}
	return renameLevels(groups, a)
}

// renameLevels gives levels the words that envoyproxy/ratelimit has for them.
func renameLevels(groups []string, a slog.Attr) slog.Attr {
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

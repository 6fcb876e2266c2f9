// Package ratelimit is what makes weir envoyproxy/ratelimit where it is started by that program's name: it makes weir's own
// settings of its environment. Nothing else knows of the name.
package ratelimit

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// The programs of envoyproxy/ratelimit.
const (
	Server = "ratelimit"
	Client = "ratelimit_client"
	Check  = "ratelimit_config_check"
)

// Started returns which of its programs a command line means, "" for none, and the arguments. Behind an entry point of
// weir's own, the first argument may be the program, with a folder or without: a compose file's command comes there.
func Started(line []string) (program string, arguments []string) {
	for i := range min(len(line), 2) {
		if name := filepath.Base(line[i]); slices.Contains([]string{Server, Client, Check}, name) {
			return name, line[i+1:]
		}
	}
	return "", line[min(len(line), 1):]
}

// Warn logs what differs from envoyproxy/ratelimit. It shows the names of ignored flags: their values may be secrets.
func (s *Settings) Warn(arguments []string, log *slog.Logger) {
	if len(arguments) > 0 {
		var flags []string
		for _, argument := range arguments {
			if name, _, _ := strings.Cut(argument, "="); strings.HasPrefix(name, "-") {
				flags = append(flags, name)
			}
		}
		log.Warn("arguments have no effect on a program of the name ratelimit: /bin/weir has commands and flags",
			"arguments", len(arguments), "flags", strings.Join(flags, " "))
	}
	if len(s.refused) > 0 {
		log.Warn("environment variables cannot have these values: their defaults hold", "variables", strings.Join(s.refused, "; "))
	}
	message, level := "started as ratelimit: ", slog.LevelWarn
	switch {
	case s.BackendType == "memory":
		message += "counters are in memory, where those of envoyproxy/ratelimit are not"
	case s.KeyFormat == descriptors.KeysOfRatelimit && s.Algorithm != descriptors.FixedWindow:
		message += "counters of limits with algorithm: fixed_window carry over from envoyproxy/ratelimit, and no others"
	case s.KeyFormat == descriptors.KeysOfRatelimit:
		message += "counters carry over from envoyproxy/ratelimit, and back to it"
		level = shownInfo // nothing is to be done
	default:
		message += "the counters of envoyproxy/ratelimit do not carry over, and every limit begins at zero, as KEY_FORMAT is weir"
	}
	if s.Algorithm == descriptors.FixedWindow {
		message += "; windows are fixed, and ALGORITHM=sliding_window gives rolling ones"
	}
	log.Log(context.Background(), level, message)
	log.Info("history", "kept", s.KeepHistory)
}

// shownInfo is called info, and printed wherever warnings are: so envoyproxy/ratelimit prints where it listens.
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

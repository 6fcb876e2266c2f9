// Package ratelimit is what makes weir envoyproxy/ratelimit where it is started by that program's name: it makes weir's own
// settings of its environment. Nothing else knows of the name.
package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	s.decideHistory(log)
}

// decideHistory keeps no history if nobody asked for one and DATA_DIR cannot be written. It logs what it decided.
func (s *Settings) decideHistory(log *slog.Logger) {
	const how = "REDIS_HISTORY_URL, or a DATA_DIR that can be written, turns it on"
	if s.KeepHistory && !s.asked && !s.HistoryInRedis() {
		if err := tryToWrite(s.DataDir); err != nil {
			s.KeepHistory = false
			log.Warn("no history is kept, as DATA_DIR cannot be written; "+how, "error", err)
			return
		}
	}
	switch {
	case !s.KeepHistory && s.asked:
		log.Info("no history is kept, as HISTORY says")
	case !s.KeepHistory:
		log.Log(context.Background(), shownInfo, "no history is kept, as nobody asked for one; "+how)
	case s.HistoryVariable() != "":
		log.Info("a history is kept", "in", "the Redis of "+s.HistoryVariable())
	case s.HistoryInRedis():
		log.Info("a history is kept", "in", "the Redis of the counters")
	default:
		log.Info("a history is kept", "in", cmp.Or(s.DataDir, "memory, which is lost when this process ends"))
	}
}

// tryToWrite returns an error if no file can be made in a folder. It makes the folder.
func tryToWrite(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	trial, err := os.CreateTemp(dir, ".trial-*")
	if err != nil {
		return err
	}
	return errors.Join(trial.Close(), os.Remove(trial.Name()))
}

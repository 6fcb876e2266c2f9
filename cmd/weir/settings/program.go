package settings

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// Program is the name that weir was started by, without its folder.
type Program string

// The programs of envoyproxy/ratelimit, which weir takes the place of when it is started by their names. Any other name
// is weir's own.
const (
	dropIn            Program = "ratelimit"
	RatelimitClient   Program = "ratelimit_client"
	RatelimitCheck    Program = "ratelimit_config_check"
	longestFlagInLogs         = 60 // characters of an argument that a log shows
)

// Started returns the program that a command line means, and its arguments. Behind an entry point of weir's own, the first
// argument may be the program, with a folder or without: a compose file's command comes there.
func Started(line []string) (Program, []string) {
	if len(line) == 0 {
		return "weir", nil
	}
	as, arguments := Program(filepath.Base(line[0])), line[1:]
	if len(arguments) == 0 || as.isRatelimits() {
		return as, arguments
	}
	if named := Program(filepath.Base(arguments[0])); named.isRatelimits() {
		return named, arguments[1:]
	}
	return as, arguments
}

// Replaces reports whether weir serves in the place of envoyproxy/ratelimit.
func (p Program) Replaces() bool { return p == dropIn }

func (p Program) isRatelimits() bool {
	return p == dropIn || p == RatelimitClient || p == RatelimitCheck
}

// Arguments parts the arguments that were given into those that are meant and those without effect: envoyproxy/ratelimit
// serves, whatever its arguments are.
func (p Program) Arguments(given []string) (meant, ignored []string) {
	if p == dropIn {
		return []string{"serve"}, given
	}
	return given, nil
}

// Warn logs what somebody who has replaced envoyproxy/ratelimit does not expect. Of arguments it shows the names of flags
// alone: what is behind them may be a secret.
func (p Program) Warn(s *Settings, ignored []string, log *slog.Logger) {
	if p != dropIn {
		return
	}
	if len(ignored) > 0 {
		var flags []string
		for _, argument := range ignored {
			if name, _, _ := strings.Cut(argument, "="); strings.HasPrefix(name, "-") {
				flags = append(flags, name[:min(len(name), longestFlagInLogs)])
			}
		}
		log.Warn("arguments have no effect on a program of the name ratelimit: /bin/weir has commands and flags",
			"arguments", len(ignored), "flags", strings.Join(flags, " "))
	}
	message, level := "started as ratelimit: ", slog.LevelWarn
	switch {
	case s.BackendType != "redis":
		message += "counters are in memory, where those of envoyproxy/ratelimit are not"
	case s.KeyFormat == descriptors.KeysOfRatelimit && s.Algorithm != descriptors.FixedWindow:
		message += "counters of limits with algorithm: fixed_window carry over from envoyproxy/ratelimit, and no others"
	case s.KeyFormat == descriptors.KeysOfRatelimit:
		message += "counters carry over from envoyproxy/ratelimit, and back to it"
		level = s.StartLevel() // nothing is to be done
	default:
		message += "the counters of envoyproxy/ratelimit do not carry over, and every limit begins at zero, as KEY_FORMAT is weir"
	}
	if s.Algorithm == descriptors.FixedWindow {
		message += "; windows are fixed, and ALGORITHM=sliding_window gives rolling ones"
	}
	log.Log(context.Background(), level, message)
}

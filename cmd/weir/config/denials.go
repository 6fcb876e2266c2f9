package config

import (
	"log/slog"
	"time"

	"github.com/weirproxy/weir/server/denials"
)

func (s *Denials) check() error {
	return require(s.DenialLogEvery == 0 || s.DenialLogEvery >= time.Second, "DENIAL_LOG_INTERVAL", s.DenialLogEvery,
		"use at least 1s, or 0 to log no denials")
}

// DenialLog returns what tells of denials in the log.
func (s *Settings) DenialLog(r *denials.Recorder, log *slog.Logger) *denials.Log {
	return &denials.Log{Recorder: r, Every: s.DenialLogEvery, Values: s.DenialLogValues, To: log}
}

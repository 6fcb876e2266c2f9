package settings

import (
	"log/slog"
	"time"

	"github.com/weirproxy/weir/server/denials"
)

// Denials are the variables that say who is told why a request was denied.
type Denials struct {
	DenialLogEvery  time.Duration `envconfig:"DENIAL_LOG_INTERVAL" default:"1m"`
	DenialLogValues bool          `envconfig:"DENIAL_LOG_VALUES" default:"false"`
	DenialMetadata  bool          `envconfig:"DENIAL_METADATA" default:"true"`
}

// asRatelimit tells nobody what nobody has asked for: envoyproxy/ratelimit does neither.
func (s *Denials) asRatelimit(isSet func(name string) bool) {
	if !isSet("DENIAL_LOG_INTERVAL") {
		s.DenialLogEvery = 0
	}
	if !isSet("DENIAL_METADATA") {
		s.DenialMetadata = false
	}
}

func (s *Denials) check() error {
	return require(s.DenialLogEvery == 0 || s.DenialLogEvery >= time.Second, "DENIAL_LOG_INTERVAL", s.DenialLogEvery,
		"use at least 1s, or 0 to log no denials")
}

// DenialLog returns what tells of denials in the log.
func (s *Settings) DenialLog(r *denials.Recorder, log *slog.Logger) *denials.Log {
	return &denials.Log{Recorder: r, Every: s.DenialLogEvery, Values: s.DenialLogValues, To: log}
}

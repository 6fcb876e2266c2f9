package yaml

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/weirproxy/weir/descriptors"
)

// Loader applies updates and logs the results. It is not for concurrent use.
type Loader struct {
	LastGood *LastGood   // last valid versions of the domains in force; must be set
	Loaded   bool        // a configuration is in force
	OnError  func(error) // if not nil, called for each update with errors, after apply
}

// Apply applies an update, and logs each of its problems and, with details as attributes, the result. It returns the
// errors: that of apply first, then the problems that are no warnings.
func (l *Loader) Apply(u Update, apply func(*descriptors.Config) error, log *slog.Logger, details ...any) (errs []error) {
	if u.Err != nil {
		errs = append(errs, u.Err)
	}
	for _, p := range u.Problems {
		level := slog.LevelWarn
		if !p.Warning {
			errs, level = append(errs, p), slog.LevelError
		}
		log.Log(context.Background(), level, "configuration problem", "problem", p)
	}
	config := u.Config
	if config != nil {
		if err := apply(config); err != nil {
			config, errs = nil, append([]error{err}, errs...)
		}
	}
	if config != nil {
		l.Loaded, l.LastGood = true, u.LastGood
		log.With(details...).Info("configuration loaded", "domains", config.DomainCount(), "rules", len(config.Rules()),
			"hash", config.Hash())
	}
	if len(errs) == 0 {
		return nil
	}
	err, message, inForce := errs[0], "configuration not loaded", "none yet"
	if len(errs) > 1 {
		err = fmt.Errorf("%d errors, the first: %w", len(errs), err)
	}
	switch {
	case config != nil:
		message, inForce = "configuration loaded only in part", "what has no errors"
	case l.Loaded:
		inForce = "the last good one"
	}
	if domains := u.consequences(); domains != "" {
		log = log.With("domains", domains)
	}
	log.Error(message, "error", err, "in_force", inForce)
	if l.OnError != nil {
		l.OnError(err)
	}
	return errs
}

// consequences returns the effect of an update's errors on requests, as one line for a log; "" if there is none.
func (u *Update) consequences() string {
	var parts []string
	add := func(what string, names []string) {
		if len(names) > 0 {
			parts = append(parts, what+": "+descriptors.Abbreviate(names...))
		}
	}
	add("keep their last valid version", u.Restored)
	add("never had a valid version, so that requests cannot be decided", u.LastGood.broken)
	add("are files of an unknown domain, whose requests are admitted unless another file has it", u.Unknown)
	return strings.Join(parts, "; ")
}

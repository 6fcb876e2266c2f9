package xds

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
)

// maxRefusal bounds the error message of a rejection, in bytes: the server may log it once a second.
const maxRefusal = 4 << 10

// refusal is a response that was refused, and why.
type refusal struct{ version, why string }

// update puts the valid part of a response in force. It returns the errors in it, for the server; "" for none.
func (s *Source) update(r *discovery.DiscoveryResponse, apply func(*descriptors.Config) error) (wrong string) {
	log := s.config.Log.With("server", s.config.Server, "version", descriptors.Shown(r.GetVersionInfo()))
	files, unreadable, problems := read(r.GetResources())
	update := s.lastGood.Update(files, unreadable)
	problems = append(problems, update.Problems...)
	errs := s.tell(problems, log)
	config := update.Config
	if config != nil {
		if err := apply(config); err != nil {
			config, errs = nil, append([]error{err}, errs...)
		}
	}
	if config != nil {
		s.loaded, s.lastGood = true, update.LastGood
		log.Info("configuration loaded", "resources", len(files), "domains", config.Domains(), "rules", len(config.Rules()),
			"hash", config.Hash())
	}
	if len(errs) == 0 {
		s.refused = refusal{}
		return ""
	}
	if now := (refusal{r.GetVersionInfo(), listed(errs)}); now != s.refused || config != nil {
		s.refused = now
		s.complain(errs, config != nil, &update, log)
	}
	return s.refused.why
}

// complain logs that a response was not put in force, or only in part.
func (s *Source) complain(errs []error, inPart bool, update *yaml.Update, log *slog.Logger) {
	if i := slices.Index(update.Unknown, everything); i >= 0 {
		update.Unknown[i] = nameless
	}
	err := yaml.First(errs)
	update.LogErrors(log, err, inPart, s.loaded)
	if s.config.OnError != nil {
		s.config.OnError(err)
	}
}

// tell logs each problem that the last response did not have. It returns those that are not warnings.
func (s *Source) tell(problems yaml.Problems, log *slog.Logger) (errs []error) {
	now := make(map[string]bool)
	for _, p := range problems {
		text := p.Error()
		level := slog.LevelWarn
		if !p.Warning {
			errs, level = append(errs, p), slog.LevelError
		}
		if !s.told[text] && !now[text] {
			log.Log(context.Background(), level, "configuration problem", "problem", text)
		}
		now[text] = true
	}
	s.told = now
	return errs
}

// listed returns errors one a line, cut to what a server is told. It is valid UTF-8, as a message has to be.
func listed(errs []error) string {
	text := strings.ToValidUTF8(errors.Join(errs...).Error(), "?")
	return string(descriptors.AppendCut(nil, []byte(text), maxRefusal))
}

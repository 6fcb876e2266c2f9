package main

import (
	"fmt"
	"strings"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
)

// answers says what answers hold beside the verdict.
func (s *settings) answers() rls.Options {
	return rls.Options{
		Headers: rls.Headers{
			Enabled: s.LimitHeaders, Limit: s.LimitHeader, Remaining: s.RemainingHeader, Reset: s.ResetHeader,
			RetryAfter: s.RetryAfter,
		},
	}
}

// limits says what holds for all requests.
func (s *settings) limits() limit.Options {
	return limit.Options{Algorithm: descriptors.Algorithm(s.Algorithm), Shadow: s.ShadowMode}
}

// checkAnswers refuses names of headers that no HTTP message can hold.
func (s *settings) checkAnswers() error {
	for _, h := range []struct{ variable, name string }{
		{"LIMIT_LIMIT_HEADER", s.LimitHeader}, {"LIMIT_REMAINING_HEADER", s.RemainingHeader}, {"LIMIT_RESET_HEADER", s.ResetHeader},
	} {
		if strings.ContainsFunc(h.name, notInHeaderName) {
			return fmt.Errorf("environment variable %s=%q: the name of a header has letters, digits and -_.!#$%%&'*+^`|~ only",
				h.variable, h.name)
		}
	}
	return nil
}

func notInHeaderName(c rune) bool {
	letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	return !letter && (c < '0' || c > '9') && !strings.ContainsRune("-_.!#$%&'*+^`|~", c)
}

package main

import (
	"fmt"
	"strings"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
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
		DynamicMetadata: s.DynamicMetadata,
	}
}

// rules says how descriptor files are read.
func (s *settings) rules() yaml.Options {
	return yaml.Options{Algorithm: descriptors.Algorithm(s.Algorithm), KeyPrefix: s.KeyPrefix, Merge: s.MergeDomains}
}

// limits says what holds for all requests.
func (s *settings) limits() limit.Options {
	return limit.Options{
		Algorithm: descriptors.Algorithm(s.Algorithm), Shadow: s.ShadowMode, Quota: s.QuotaMode, Spare: s.Spare, NearRatio: s.NearRatio,
	}
}

// checkAnswers refuses a share that is none, and names of headers that no HTTP message can hold.
func (s *settings) checkAnswers() error {
	if !(s.NearRatio > 0 && s.NearRatio <= 1) {
		return fmt.Errorf("environment variable NEAR_LIMIT_RATIO=%v: use a number above 0, and at most 1", s.NearRatio)
	}
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

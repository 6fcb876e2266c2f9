// Package ratelimit is what weir counts under the names of envoyproxy/ratelimit's statistics, for those whose dashboards
// and alerts know these names. The packages beside it bring them to Prometheus and to statsd.
package ratelimit

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

// Kind is how a statistic behaves.
type Kind uint8

// The kinds of statistics.
const (
	Counter Kind = iota // a total since the start, which never goes down
	Gauge
)

// ResponseTime is the name of the one timer: how long answering a request took, in milliseconds.
const ResponseTime = "ratelimit_server.ShouldRateLimit.response_time"

// rules begins the name of what is counted by rule.
const rules = "ratelimit.service.rate_limit."

// Config says where the numbers come from.
type Config struct {
	Recorder    *hits.Recorder                    // of the rules' hits; keeps tallies, or there is nothing by rule
	Requests    func() [limit.Outcomes]uint64     // by outcome
	ConfigLoads func() (applied, rejected uint64) // configurations
	Gauges      map[string]func() (value uint64)  // more gauges, by name
	Counters    map[string]func() (total uint64)  // more counters, by name
}

// Statistics reads all statistics but the timer. Its methods may be called by any number of goroutines.
type Statistics struct {
	config Config

	mu    sync.Mutex
	names map[string]*[hits.Kinds]string // of the statistics of each rule, by the rule's name
}

// New returns the statistics of a process.
func New(c Config) *Statistics {
	return &Statistics{config: c, names: make(map[string]*[hits.Kinds]string)}
}

// Each calls do with each statistic in no particular order: gauges, and counters that are above 0. There are as many as
// the rules, and the values that rules tell apart, let there be.
func (s *Statistics) Each(do func(name string, kind Kind, value uint64)) {
	count := func(name string, value uint64) {
		if value > 0 {
			do(name, Counter, value)
		}
	}
	tallies := s.config.Recorder.Tallies()
	for rule, totals := range tallies {
		names := s.of(rule)
		for kind, total := range totals {
			count(names[kind], total)
		}
	}
	s.keep(tallies)
	count(rules+history.UnknownDomain+".domain_not_found", s.config.Recorder.NotFound())
	n := s.config.Requests()
	var all uint64
	for _, one := range n {
		all += one
	}
	count("ratelimit_server.ShouldRateLimit.total_requests", all)
	count("ratelimit.service.call.should_rate_limit.service_error", n[limit.Invalid]+n[limit.Unconfigured])
	count("ratelimit.service.call.should_rate_limit.redis_error", n[limit.Unavailable])
	count("ratelimit.service.global_shadow_mode", n[limit.Shadowed])
	applied, rejected := s.config.ConfigLoads()
	count("ratelimit.service.config_load_success", applied)
	count("ratelimit.service.config_load_error", rejected)
	for name, total := range s.config.Counters {
		count(name, total())
	}
	for name, value := range s.config.Gauges {
		do(name, Gauge, value())
	}
}

// of returns the names of the statistics of a rule.
func (s *Statistics) of(rule string) *[hits.Kinds]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.names[rule]
	if names == nil {
		names = new([hits.Kinds]string)
		for kind := range names {
			names[kind] = rules + rule + "." + hits.Kind(kind).String()
		}
		s.names[rule] = names
	}
	return names
}

// keep forgets the names of rules that are not among those counted.
func (s *Statistics) keep(counted map[string][hits.Kinds]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) > len(counted) {
		maps.DeleteFunc(s.names, func(rule string, _ *[hits.Kinds]string) bool {
			_, is := counted[rule]
			return !is
		})
	}
}

// WriteText writes each statistic as a line, name: value, sorted.
func (s *Statistics) WriteText(w io.Writer) error {
	var lines []string
	s.Each(func(name string, _ Kind, value uint64) { lines = append(lines, fmt.Sprintf("%s: %d\n", name, value)) })
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

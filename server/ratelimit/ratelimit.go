// Package ratelimit has weir's counts under the names of envoyproxy/ratelimit's statistics, for existing dashboards
// and alerts, and exposes them to Prometheus as that program does: by statsd_exporter's mapping of names to metrics
// and labels. Of the packages below, rulestats counts by that program's arithmetic on the request path, and statsd
// sends the statistics to statsd.
package ratelimit

import (
	"fmt"
	"io"
	"slices"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/ratelimit/rulestats"
)

// Method is a gRPC method whose calls are counted and timed.
type Method uint8

// The methods.
const (
	ShouldRateLimit Method = iota
	Check                  // health check
	Methods         = int(Check) + 1
)

// String returns the method's name in statistics.
func (m Method) String() string { return [Methods]string{"ShouldRateLimit", "Check"}[m] }

// ResponseTime returns the name of the method's timer: how long answering a call took, in milliseconds.
func (m Method) ResponseTime() string { return "ratelimit_server." + m.String() + ".response_time" }

// rulePrefix is the prefix of statistics by rule.
const rulePrefix = "ratelimit.service.rate_limit."

// Statistics reads all statistics except timers. Its methods may be called by any number of goroutines.
type Statistics struct {
	Rules       *rulestats.Registry               // nil: no statistics by rule
	Requests    func() [limit.Results]uint64      // by result, over gRPC and as JSON
	Calls       func(Method) uint64               // over gRPC
	ConfigLoads func() (applied, rejected uint64) // configurations
	Gauges      map[string]func() (value uint64)  // more gauges, by name
	Counters    map[string]func() (total uint64)  // more counters, by name
}

// Each calls do with each gauge, and with each counter above 0, in no particular order. Counters are totals since the
// start and never go down. The rules and [rulestats.MaxValues] bound the number of statistics.
func (s *Statistics) Each(do func(name string, value uint64, isGauge bool)) {
	count := func(name string, value uint64) {
		if value > 0 {
			do(name, value, false)
		}
	}
	if s.Rules != nil {
		for rule, totals := range s.Rules.Totals() {
			for statistic, total := range totals {
				count(rulePrefix+rule+"."+rulestats.Statistic(statistic).String(), total)
			}
		}
		count(rulePrefix+descriptors.UnknownDomainName+".domain_not_found", s.Rules.NotFound())
	}
	n := s.Requests()
	for m := range Method(Methods) {
		count("ratelimit_server."+m.String()+".total_requests", s.Calls(m))
	}
	count("ratelimit.service.call.should_rate_limit.service_error", n[limit.Invalid]+n[limit.Unconfigured])
	count("ratelimit.service.call.should_rate_limit.redis_error", n[limit.Unavailable])
	count("ratelimit.service.global_shadow_mode", n[limit.Shadowed])
	applied, rejected := s.ConfigLoads()
	count("ratelimit.service.config_load_success", applied)
	count("ratelimit.service.config_load_error", rejected)
	for name, total := range s.Counters {
		count(name, total())
	}
	for name, value := range s.Gauges {
		do(name, value(), true)
	}
}

// WriteText writes each statistic as a line, name: value, sorted.
func (s *Statistics) WriteText(w io.Writer) error {
	var lines []string
	s.Each(func(name string, value uint64, _ bool) { lines = append(lines, fmt.Sprintf("%s: %d\n", name, value)) })
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/weirproxy/weir/descriptors/regular"
	"github.com/weirproxy/weir/server/ratelimit"
	"github.com/weirproxy/weir/server/ratelimit/statsd"
)

// check returns an error that names the first invalid variable.
func (s *Statistics) check() error {
	if !s.anySink() {
		return nil
	}
	return cmp.Or(
		require(s.FlushInterval > 0, "STATS_FLUSH_INTERVAL", s.FlushInterval, "use more than 0, as in 10s"),
		require(!s.UseStatsd || slices.Contains(statsdNetworks, s.network()), "STATSD_PROTOCOL", s.StatsdProtocol,
			"use tcp or udp"),
		require(!s.UsePrometheus || !strings.ContainsAny(s.PrometheusPath, " \t{}?#"), "PROMETHEUS_PATH", s.PrometheusPath,
			"use a path, as in /metrics"),
	)
}

// anySink reports whether there is a sink for the statistics.
func (s *Statistics) anySink() bool {
	return !s.DisableStats && (s.UseStatsd || s.UseDogStatsd || s.UsePrometheus)
}

// CountsAsRatelimit reports whether hits are also counted as in envoyproxy/ratelimit: for a sink, or for /stats.
func (s *Settings) CountsAsRatelimit() bool {
	return !s.DisableStats && (s.AlwaysCountAsRatelimit || s.anySink())
}

var statsdNetworks = []string{"tcp", "tcp4", "tcp6", "udp", "udp4", "udp6"}

// network returns STATSD_PROTOCOL, which may be in upper case.
func (s *Statistics) network() string { return strings.ToLower(s.StatsdProtocol) }

// StatsdSinks returns the configurations of the sinks: statsd, DogStatsD, both or none.
func (s *Settings) StatsdSinks() []statsd.Config {
	if s.DisableStats {
		return nil
	}
	to := statsd.Config{
		Address: net.JoinHostPort(strings.Trim(s.StatsdHost, "[]"), strconv.Itoa(int(s.StatsdPort))), Interval: s.Statistics.FlushInterval,
	}
	var all []statsd.Config
	if s.UseStatsd {
		to.Network, to.Format = s.network(), statsd.PlainFormat(s.ExtraTags)
		all = append(all, to)
	}
	if s.UseDogStatsd {
		to.Network, to.Format = "udp", statsd.DogStatsDFormat(s.dogTags(), s.mogrifiers)
		all = append(all, to)
	}
	return all
}

// dogTags returns the tags of all statistics for DogStatsD, including those of the DD_ variables.
func (s *Statistics) dogTags() (tags []string) {
	for _, of := range []struct{ key, value string }{
		{"env", s.DogEnv}, {"service", s.DogService}, {"version", s.DogVersion}, {"dd.internal.entity_id", s.DogEntityID},
	} {
		if of.value != "" {
			tags = append(tags, statsd.Tag(of.key, of.value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.ExtraTags)) {
		tags = append(tags, statsd.Tag(key, s.ExtraTags[key]))
	}
	return tags
}

// readMogrifiers reads the variables of the mogrifiers that USE_DOG_STATSD_MOGRIFIERS names.
func (s *Settings) readMogrifiers(e Environment) error {
	if !s.UseDogStatsd || s.DogStatsdPatterns == "" {
		return nil
	}
	for name := range strings.SplitSeq(s.DogStatsdPatterns, ",") {
		prefix, tags := "DOG_STATSD_MOGRIFIER_"+strings.ToUpper(strings.TrimSpace(name)), make(map[string]string)
		for tag := range strings.SplitSeq(e[prefix+"_TAGS"], ",") {
			key, value, _ := strings.Cut(tag, ":")
			if tag != "" && (key == "" || value == "") {
				return wrongValue(prefix+"_TAGS", e[prefix+"_TAGS"], "use key:value, separated by commas")
			} else if tag != "" {
				tags[key] = value
			}
		}
		for _, part := range []string{prefix + "_PATTERN", prefix + "_NAME"} {
			if e[part] == "" {
				return wrongValue(part, "", "USE_DOG_STATSD_MOGRIFIERS names it, so it cannot be empty")
			}
		}
		one, err := statsd.NewMogrifier(e[prefix+"_PATTERN"], e[prefix+"_NAME"], tags)
		if err != nil {
			return fmt.Errorf("environment variables %s_PATTERN, _NAME and _TAGS: %w", prefix, err)
		}
		s.mogrifiers = append(s.mogrifiers, one)
	}
	return nil
}

// PrometheusMapping returns the mapping of statistics for Prometheus from PROMETHEUS_MAPPER_YAML, "" if there is no
// such file.
func (s *Statistics) PrometheusMapping(log *slog.Logger) (string, error) {
	if s.PrometheusMapper == "" {
		return ratelimit.DefaultMapping(s.PrometheusMilliseconds), nil
	}
	text, err := regular.ReadFile(s.PrometheusMapper)
	if errors.Is(err, fs.ErrNotExist) {
		log.Warn("PROMETHEUS_MAPPER_YAML names no file", "file", s.PrometheusMapper, "effect", "the default mapping is used")
		return ratelimit.DefaultMapping(s.PrometheusMilliseconds), nil
	}
	if err != nil {
		return "", fmt.Errorf("environment variable PROMETHEUS_MAPPER_YAML=%q: %w", s.PrometheusMapper, err)
	}
	return string(text), nil
}

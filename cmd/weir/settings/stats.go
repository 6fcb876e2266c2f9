package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"github.com/weirproxy/weir/server/stats/mapped"
	"github.com/weirproxy/weir/server/stats/statsd"
)

// check returns an error that names the first variable at fault.
func (s *Statistics) check() error {
	if !s.anySink() {
		return nil
	}
	_, err := s.mogrifiers()
	return cmp.Or(
		require(s.FlushInterval > 0, "STATS_FLUSH_INTERVAL", s.FlushInterval, "use more than 0, as in 10s"),
		require(!s.UseStatsd || s.network() != "", "STATSD_PROTOCOL", s.StatsdProtocol, "use tcp or udp"),
		require(!s.UsePrometheus || !strings.ContainsAny(s.PrometheusPath, " \t{}?#"), "PROMETHEUS_PATH", s.PrometheusPath,
			"use a path, as in /metrics"),
		err,
	)
}

// anySink reports whether the statistics go anywhere.
func (s *Statistics) anySink() bool {
	return !s.DisableStats && (s.UseStatsd || s.UseDogStatsd || s.UsePrometheus)
}

// CountsAsRatelimit reports whether hits are counted as envoyproxy/ratelimit does, too: for a sink, or for /stats of who
// has replaced that program.
func (s *Statistics) CountsAsRatelimit(as Program) bool {
	return !s.DisableStats && (as == dropIn || s.anySink())
}

// network returns the network of statsd, "" if it is none.
func (s *Statistics) network() string {
	if name := cmp.Or(s.StatsdProtocol, "tcp"); isStatsdProtocol(name) {
		return strings.ToLower(name)
	}
	return ""
}

// StatsdSinks returns where and how statistics are sent: to statsd, DogStatsD, both or neither.
func (s *Statistics) StatsdSinks() []statsd.Config {
	if s.DisableStats {
		return nil
	}
	to := statsd.Config{
		Address: net.JoinHostPort(strings.Trim(s.StatsdHost, "[]"), strconv.Itoa(int(s.StatsdPort))), Interval: s.FlushInterval,
	}
	var all []statsd.Config
	if s.UseStatsd {
		to.Network, to.Form = s.network(), statsd.Plain(s.ExtraTags)
		all = append(all, to)
	}
	if s.UseDogStatsd {
		mogrifiers, _ := s.mogrifiers() // check has seen its error
		to.Network, to.Form = "udp", statsd.Tagged(s.dogTags(), mogrifiers)
		all = append(all, to)
	}
	return all
}

// dogTags returns the tags of everything that is sent to DogStatsD, those that its own clients know among them.
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

// mogrifiers reads the variables of those that USE_DOG_STATSD_MOGRIFIERS names.
func (s *Statistics) mogrifiers() (all []statsd.Mogrifier, err error) {
	if !s.UseDogStatsd || s.DogStatsdPatterns == "" {
		return nil, nil
	}
	for _, name := range strings.Split(s.DogStatsdPatterns, ",") {
		prefix := "DOG_STATSD_MOGRIFIER_" + strings.ToUpper(strings.TrimSpace(name))
		var m struct {
			Pattern string            `envconfig:"PATTERN"`
			Name    string            `envconfig:"NAME"`
			Tags    map[string]string `envconfig:"TAGS"`
		}
		if err := envconfig.Process(prefix, &m); err != nil {
			return nil, require(false, prefix+"_TAGS", os.Getenv(prefix+"_TAGS"), "use key:value, separated by commas")
		}
		const listed = "USE_DOG_STATSD_MOGRIFIERS names it, so it cannot be empty"
		if err := cmp.Or(
			require(m.Pattern != "", prefix+"_PATTERN", m.Pattern, listed),
			require(m.Name != "", prefix+"_NAME", m.Name, listed),
			require(m.Tags[""] == "" && !slices.Contains(slices.Collect(maps.Values(m.Tags)), ""), prefix+"_TAGS",
				os.Getenv(prefix+"_TAGS"), "each tag needs a key and a value"),
		); err != nil {
			return nil, err
		}
		one, err := statsd.NewMogrifier(m.Pattern, m.Name, m.Tags)
		if err != nil {
			return nil, fmt.Errorf("environment variables %s_PATTERN, _NAME and _TAGS: %w", prefix, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// PrometheusAt returns the address at which Prometheus reads the statistics.
func (s *Statistics) PrometheusAt() string { return cmp.Or(s.PrometheusAddress, ":9090") }

// PrometheusMapping returns the mapping by which statistics are shown to Prometheus: that of the file, if it is there.
func (s *Statistics) PrometheusMapping(log *slog.Logger) (string, error) {
	if s.PrometheusMapper == "" {
		return mapped.DefaultMapping(s.PrometheusMilliseconds), nil
	}
	text, err := os.ReadFile(s.PrometheusMapper)
	if errors.Is(err, fs.ErrNotExist) {
		log.Warn("PROMETHEUS_MAPPER_YAML names no file: the default mapping holds", "file", s.PrometheusMapper)
		return mapped.DefaultMapping(s.PrometheusMilliseconds), nil
	}
	if err != nil {
		return "", fmt.Errorf("environment variable PROMETHEUS_MAPPER_YAML=%q: %w", s.PrometheusMapper, err)
	}
	return string(text), nil
}

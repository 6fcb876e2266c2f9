package config

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproxy/weir/server/ratelimit"
)

func TestStatsdSinksFollowTheEnvironment(t *testing.T) {
	const both = "USE_STATSD=true USE_DOG_STATSD=true STATSD_HOST=[::1] STATSD_PORT=9125 EXTRA_TAGS=team:a " +
		"DD_ENV=prod DD_SERVICE=rl DD_VERSION=1 DD_ENTITY_ID=pod USE_DOG_STATSD_MOGRIFIERS=M " +
		`DOG_STATSD_MOGRIFIER_M_PATTERN=^ratelimit\.(.*)$ DOG_STATSD_MOGRIFIER_M_NAME=rl DOG_STATSD_MOGRIFIER_M_TAGS=rest:$1`
	for _, tc := range []struct {
		environment, want string // network and address of each, and how it writes a name
		keeps             bool
	}{
		{"", "", false},
		{"USE_STATSD=true", "tcp localhost:8125 ratelimit.x;", true},
		{"USE_STATSD=true DISABLE_STATS=true", "", false},
		{both, "tcp [::1]:9125 ratelimit.x.__team=a;udp [::1]:9125 rl|#env:prod,service:rl,version:1,dd.internal.entity_id:pod,team:a,rest:x;", true},
		{"USE_PROMETHEUS=true", "", true},
	} {
		settings := mustRead(t, tc.environment)
		got := ""
		for _, c := range settings.StatsdSinks() {
			begin, end := c.Format("ratelimit.x")
			got += c.Network + " " + c.Address + " " + begin + end + ";"
		}
		if got != tc.want || settings.CountsAsRatelimit() != tc.keeps {
			t.Errorf("with %s they go to %q, and are counted: %v; want %q, %v", tc.environment, got, settings.CountsAsRatelimit(), tc.want, tc.keeps)
		}
	}
}

// Envoy Gateway mounts the mapping from a ConfigMap that need not be there.
func TestMissingMappingMeansTheDefault(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.yaml")
	if err := os.WriteFile(own, []byte("mappings: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		file, want string
		lines      int
	}{
		{"", ratelimit.DefaultMapping(false), 0},
		{filepath.Join(dir, "none.yaml"), ratelimit.DefaultMapping(false), 1},
		{own, "mappings: []", 0},
	} {
		var log bytes.Buffer
		s := Statistics{PrometheusMapper: tc.file}
		got, err := s.PrometheusMapping(slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || got != tc.want || strings.Count(log.String(), "\n") != tc.lines {
			t.Errorf("%q: %q, %v, and\n%s in the log; want %q and %d lines", tc.file, got, err, &log, tc.want, tc.lines)
		}
		if _, err := ratelimit.NewPrometheus(ratelimit.PrometheusConfig{Mapping: got, Statistics: new(ratelimit.Statistics), Log: slog.Default()}); err != nil {
			t.Errorf("%q: %v", tc.file, err)
		}
	}
	s := Statistics{PrometheusMapper: dir}
	if _, err := s.PrometheusMapping(slog.Default()); err == nil || !strings.Contains(err.Error(), "PROMETHEUS_MAPPER_YAML") {
		t.Errorf("a directory for a file gives %v; want an error that names the variable", err)
	}
}

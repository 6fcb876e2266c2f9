package main

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/cmd/weir/ratelimit"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
	"github.com/weirproxy/weir/server/rls"
	"github.com/weirproxy/weir/server/stats"
)

// settingsAs returns the settings of a program, weir or ratelimit, with an environment.
func settingsAs(t *testing.T, program string, environment config.Environment) *config.Settings {
	t.Helper()
	settings, err := config.Read(environment)
	if program == ratelimit.Server {
		var as ratelimit.Settings
		as, err = ratelimit.Read(environment)
		settings = as.Settings
	}
	if err != nil {
		t.Fatal(err)
	}
	return &settings
}

// openForTest opens the statistics of an environment.
func openForTest(t *testing.T, as string, environment map[string]string) (*statistics, *stats.Metrics, error) {
	t.Helper()
	settings := settingsAs(t, as, environment)
	store, metrics := fixture.Memory(t, nil), stats.New("test")
	s, err := openStatistics(settings, metrics, hits.New(0), &counterStore{Store: store}, slog.New(slog.DiscardHandler))
	return s, metrics, err
}

// Started as ratelimit, weir must limit wherever that program does, so it ignores a Prometheus port that it cannot open.
func TestOnlyRatelimitStartsWithoutPrometheus(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	bad := filepath.Join(t.TempDir(), "mapping.yaml")
	if err := os.WriteFile(bad, []byte("mappings: [{match: a}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"PROMETHEUS_ADDR": taken.Addr().String(), "PROMETHEUS_MAPPER_YAML": bad} {
		t.Run(name, func(t *testing.T) {
			environment := map[string]string{"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": "127.0.0.1:0"}
			environment[name] = value
			if _, _, err := openForTest(t, "weir", environment); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("as weir: %v; want an error that names %s", err, name)
			}
			s, _, err := openForTest(t, "ratelimit", environment)
			if err != nil {
				t.Fatalf("as ratelimit: %v; want it to start", err)
			}
			s.run()
			s.close()
		})
	}
}

func TestDotsInValuesAreSanitizedOnDemand(t *testing.T) {
	for value, want := range map[string]string{"": "a.tenant_b.c.total_hits: 1", "true": "a.tenant_b_c.total_hits: 1"} {
		settings := settingsAs(t, "weir", map[string]string{"USE_STATSD": "true", "SANITIZE_DESCRIPTOR_METRIC_DOTS": value})
		recorder := hits.New(0)
		s, err := openStatistics(settings, stats.New("test"), recorder, new(counterStore), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l := limit.New(fixture.Memory(t, nil), limit.Options{}, recorder)
		l.Apply(fixture.Config(t, "domain: a\ndescriptors: [{key: tenant, value: b.c, rate_limit: {requests_per_unit: 9, unit: hour}}]"))
		c := &limit.Call{Request: limit.Request{Domain: "a"}}
		d := c.AddDescriptor()
		d.Entries = append(d.Entries, descriptors.Entry{Key: "tenant", Value: "b.c"})
		var text strings.Builder
		if err := errors.Join(l.Decide(t.Context(), c), s.source.WriteText(&text)); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("with %q the statistics are\n%s(%v), want %s", value, &text, err, want)
		}
	}
}

// All sinks work at the same time, and the requests of the drain are sent too.
func TestStatisticsAreSentDuringTheDrain(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s, metrics, err := openForTest(t, "weir", map[string]string{"USE_STATSD": "true", "USE_DOG_STATSD": "true", "USE_PROMETHEUS": "true",
		"STATSD_HOST": "127.0.0.1", "STATSD_PORT": port, "STATS_FLUSH_INTERVAL": "1h",
		"PROMETHEUS_ADDR": "127.0.0.1:0", "PROMETHEUS_PATH": "prom"})
	if err != nil {
		t.Fatal(err)
	}
	s.run()
	s.observe(rls.AnsweredRequest{Took: 2 * time.Millisecond})
	s.observe(rls.AnsweredRequest{Took: 3 * time.Millisecond, JSON: true}) // is no call
	s.countHealthCheck(4 * time.Millisecond)
	where := "http://" + s.port.Address()
	for path, want := range map[string]string{
		"/prom":         "\nratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"} 1\n",
		"/debug/pprof/": "404",
	} {
		text, status, err := weirtest.Fetch(where + path)
		if got := fmt.Sprintf("%s\n%d", text, status); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s answers %v\n%s; want %s", path, err, got, want)
		}
	}
	s.observe(rls.AnsweredRequest{Took: time.Millisecond})
	if n := metrics.Requests()[limit.OK]; n != 3 {
		t.Errorf("weir's own metrics have %d requests, want all 3", n)
	}
	s.close()
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got := make(map[string]bool)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		got[lines.Text()] = true
	}
	for _, want := range []string{"ratelimit_server.ShouldRateLimit.total_requests:2|c", "ratelimit_server.ShouldRateLimit.response_time:2|ms",
		"ratelimit_server.Check.total_requests:1|c", "ratelimit_server.Check.response_time:4|ms"} {
		if !got[want] {
			t.Errorf("statsd got %v; want %s", got, want)
		}
	}
	if got["ratelimit_server.ShouldRateLimit.response_time:3|ms"] {
		t.Errorf("statsd got %v; want no time of a request in JSON", got)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(where, "http://")); err == nil {
		conn.Close()
		t.Error("Prometheus's port is open after the end")
	}
}

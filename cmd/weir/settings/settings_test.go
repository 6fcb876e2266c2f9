package settings

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

func TestDefaults(t *testing.T) {
	s, err := Read("weir")
	if err != nil {
		t.Fatal(err)
	}
	if s.GRPCPort != 8081 || s.Port != 8080 || s.DebugPort != 6070 || s.MemoryMaxKeys != 1_000_000 || s.DataDir != "./weir-data" ||
		s.DrainDelay != 5*time.Second || s.DrainTimeout != 20*time.Second || s.Algorithm != descriptors.SlidingWindow {
		t.Errorf("the defaults are part of what people rely on; got %+v", s)
	}
	if dir := s.ConfigDir(); dir != "/srv/runtime_data/current/config" {
		t.Errorf("the default directory is %s; want the one that envoyproxy/ratelimit reads", dir)
	}
}

func TestAWrongVariableIsNamed(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"GRPC_PORT", "eighty", "GRPC_PORT"},
		{"GRPC_PORT", "70000", "GRPC_PORT"},
		{"ALGORITHM", "leaky", "use one of sliding_window, fixed_window"},
		{"LOG_LEVEL", "loud", "use one of debug, info, warning, error"},
		{"LOG_FORMAT", "xml", "use text or json"},
		{"DRAIN_DELAY", "5", "DRAIN_DELAY"},
		{"DRAIN_DELAY", "-5s", "DRAIN_DELAY=-5s: it cannot be negative"},
		{"GRPC_MAX_CONNECTION_AGE", "-1s", "GRPC_MAX_CONNECTION_AGE=-1s: use 0 for no bound"},
		{"GRPC_MAX_CONNECTION_AGE", "9ns", "GRPC_MAX_CONNECTION_AGE=9ns: use 0 for no bound"},
		{"GRPC_MAX_CONNECTION_AGE_GRACE", "-1h", "GRPC_MAX_CONNECTION_AGE_GRACE=-1h0m0s: use 0 for no bound"},
		{"MEMORY_MAX_KEYS", "0", "MEMORY_MAX_KEYS=0: at least 1"},
		{"BACKEND_TYPE", "memcache", `BACKEND_TYPE="memcache": use memory or redis`},
		{"BACKEND_TYPE", "redis", "REDIS_URL or REDIS_URL_FILE must say where Redis is"},
		{"HISTORY", "maybe", "variable HISTORY="},
		{"HISTORY_FLUSH_INTERVAL", "5m", "HISTORY_FLUSH_INTERVAL=5m0s: use 1s to 1m"},
		{"HISTORY_FLUSH_INTERVAL", "often", "variable HISTORY_FLUSH_INTERVAL="},
		{"HISTORY_MAX_POINTS", "0", "HISTORY_MAX_POINTS=0: at least 1"},
		{"HISTORY_KEEP_MINUTES", "30m", "HISTORY_KEEP_MINUTES"},
		{"HISTORY_RETENTION", "24h", "coarser buckets are kept as long as finer ones"},
		{"HISTORY_DOWNSAMPLE", "maybe", "variable HISTORY_DOWNSAMPLE="},
		{"HISTORY_QUERY", "maybe", "variable HISTORY_QUERY="},
		{"HISTORY_QUERY_CONCURRENCY", "-1", "HISTORY_QUERY_CONCURRENCY=-1: use 0 to 100"},
		{"HISTORY_QUERY_CONCURRENCY", "many", "variable HISTORY_QUERY_CONCURRENCY="},
		{"HISTORY_QUERY_MAX_SAMPLES", "0", "HISTORY_QUERY_MAX_SAMPLES=0: at least 1"},
		{"HISTORY_QUERY_TIMEOUT", "0s", "HISTORY_QUERY_TIMEOUT=0s: use 1s to 1h"},
		{"LIMIT_RESET_HEADER", "Rate Reset", `LIMIT_RESET_HEADER="Rate Reset": the name of a header has letters, digits and`},
		{"LIMIT_REQUEST_LIMIT_HEADER", "a:b", `LIMIT_REQUEST_LIMIT_HEADER="a:b": the name of a header has letters`},
		{"LIMIT_REQUEST_REMAINING_HEADER", "é", "LIMIT_REQUEST_REMAINING_HEADER"},
		{"LIMIT_REQUEST_RESET_HEADER", "a b", "LIMIT_REQUEST_RESET_HEADER"},
		{"NEAR_LIMIT_RATIO", "80", "NEAR_LIMIT_RATIO=80: use a number above 0, and at most 1"},
		{"NEAR_LIMIT_RATIO", "NaN", "NEAR_LIMIT_RATIO=NaN: use a number"},
		{"NEAR_LIMIT_RATIO", "most", "variable NEAR_LIMIT_RATIO="},
		{"SHADOW_MODE", "maybe", "variable SHADOW_MODE="},
		{"KEY_FORMAT", "gubernator", "use weir or ratelimit"},
		{"EXPIRATION_JITTER_MAX_SECONDS", "-1", "EXPIRATION_JITTER_MAX_SECONDS=-1: it cannot be negative"},
		{"RING_ON_NODE_LOSS", "panic", "use remap or pin"},
	} {
		t.Run(tc.name+"="+tc.value, func(t *testing.T) {
			t.Setenv(tc.name, tc.value)
			if _, err := Read("weir"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v; want an error that says %q", err, tc.want)
			}
		})
	}
}

func TestAUnixSocketGoesBeforeThePort(t *testing.T) {
	t.Setenv("GRPC_UDS", "/run/weir/weir.sock")
	s, err := Read("weir")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Server(); c.GRPCAddress != "unix:/run/weir/weir.sock" || c.HTTPAddress != "0.0.0.0:8080" {
		t.Errorf("gRPC is at %s and HTTP at %s; want gRPC alone on the socket, as envoyproxy/ratelimit has it", c.GRPCAddress, c.HTTPAddress)
	}
}

func TestLogLevelsOfTheIncumbent(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"trace": slog.LevelDebug, "DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "WARN": slog.LevelWarn,
		"warning": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError,
	} {
		var l logLevel
		if err := l.Decode(name); err != nil || slog.Level(l) != want {
			t.Errorf("LOG_LEVEL=%s gives %v, %v; want %v", name, slog.Level(l), err, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for host, want := range map[string]string{"0.0.0.0": "0.0.0.0:8081", "::": "[::]:8081", "[::1]": "[::1]:8081", "": ":8081"} {
		if got := address(host, 8081); got != want {
			t.Errorf("host %q gives %s, want %s", host, got, want)
		}
	}
}

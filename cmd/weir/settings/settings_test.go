package settings

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// mustRead returns the settings of a program in an environment that is right.
func mustRead(t *testing.T, as Program) Settings {
	t.Helper()
	s, err := Read(as)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaults(t *testing.T) {
	s := mustRead(t, "weir")
	if s.GRPCPort != 8081 || s.Port != 8080 || s.DebugPort != 6070 || s.MemoryMaxKeys != 1_000_000 || s.DataDir != "./weir-data" ||
		s.DrainDelay != 5*time.Second || s.DrainTimeout != 20*time.Second || s.Algorithm != descriptors.SlidingWindow {
		t.Errorf("the defaults are part of what people rely on; got %+v", s)
	}
	if dir := s.ConfigDir(); dir != "/srv/runtime_data/current/config" {
		t.Errorf("the default directory is %s; want the one that envoyproxy/ratelimit reads", dir)
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

// What would answer without the certificate that a client must have is not served, and what may be turned off says by what.
func TestJSONIsNotServedBesideClientCertificates(t *testing.T) {
	for environment, why := range map[string]string{
		"":                   "",
		"JSON_ENABLED=false": "JSON_ENABLED",
		"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k":                           "",
		"GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=ca": "GRPC_CLIENT_TLS_CACERT",
	} {
		t.Run(environment, func(t *testing.T) {
			for _, variable := range strings.Fields(environment) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			for _, as := range []Program{"weir", "ratelimit"} {
				s := mustRead(t, as)
				c := s.Server()
				if (c.NoJSON == "") != (why == "") || !strings.Contains(c.NoJSON, why) || c.AnyJSONType != (as == "ratelimit") {
					t.Errorf("as %s /json is not served because of %q, of any type %v; want %q", as, c.NoJSON, c.AnyJSONType, why)
				}
			}
		})
	}
}

package config

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/descriptors"
)

// env is an environment of variables that are separated by spaces.
func env(variables string) Environment {
	e := make(Environment)
	for _, variable := range strings.Fields(variables) {
		name, value, _ := strings.Cut(variable, "=")
		e[name] = value
	}
	return e
}

// mustRead returns the settings of an environment that is right.
func mustRead(t *testing.T, variables string) Settings {
	t.Helper()
	s, err := Read(env(variables))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaults(t *testing.T) {
	s := mustRead(t, "")
	if s.GRPCPort != 8081 || s.Port != 8080 || s.DebugPort != 6070 || s.MemoryMaxKeys != 1_000_000 || s.DataDir != "./weir-data" ||
		s.DrainDelay != 5*time.Second || s.DrainTimeout != 20*time.Second || s.Algorithm != descriptors.SlidingWindow {
		t.Errorf("the defaults are part of what people rely on; got %+v", s)
	}
	if dir, _ := s.ConfigFiles(); dir != "/srv/runtime_data/current/config" {
		t.Errorf("the default directory is %s; want the one that envoyproxy/ratelimit reads", dir)
	}
}

func TestLogLevelsOfTheIncumbent(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"trace": slog.LevelDebug, "DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "WARN": slog.LevelWarn,
		"warning": slog.LevelWarn, "error": slog.LevelError, "fatal": slog.LevelError,
	} {
		var l logLevel
		if err := l.EnvDecode(name); err != nil || slog.Level(l) != want {
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
			s := mustRead(t, environment)
			if c := s.Server(); (c.NoJSON == "") != (why == "") || !strings.Contains(c.NoJSON, why) {
				t.Errorf("/json is not served because of %q, want %q", c.NoJSON, why)
			}
		})
	}
}

// A chart or a compose file that passes on a variable that nobody has set, sets it to nothing.
func TestWhatIsSetToNothingIsNotSet(t *testing.T) {
	empty := make(Environment)
	for name := range variables() {
		if _, kept := (&lookups{Environment: Environment{name: ""}}).Lookup(name); !kept {
			empty[name] = ""
		}
	}
	got, err := Read(empty)
	if want := mustRead(t, ""); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the settings are %+v, %v; want %+v", got, err, want)
	}
	if s := mustRead(t, "DATA_DIR= LIMIT_LIMIT_HEADER= LIMIT_RESPONSE_HEADERS_ENABLED=true"); s.DataDir != "" || s.Answers().Headers.Answer.Limit != "" {
		t.Errorf("the settings are %+v; want nothing saved, and a header left out", s)
	}
}

func TestARatioOfNothingIsNotTheDefault(t *testing.T) {
	s := mustRead(t, "NEAR_LIMIT_RATIO=0")
	if ratio := s.Limits().NearRatio; ratio <= 0 || uint64(1e9*ratio) != 0 {
		t.Errorf("the ratio is %v; want all hits near, of a limit of 1e9 too, and not the default", ratio)
	}
}

func TestDenialsAreToldUnlessAskedOtherwise(t *testing.T) {
	for environment, want := range map[string]struct {
		every    time.Duration
		metadata bool
	}{"": {time.Minute, true}, "DENIAL_LOG_INTERVAL=0 DENIAL_METADATA=false": {0, false}, "DENIAL_LOG_INTERVAL=5m": {5 * time.Minute, true}} {
		s := mustRead(t, environment)
		if l := s.DenialLog(nil, nil); l.Every != want.every || l.Values || s.Answers().DeniedMetadata != want.metadata {
			t.Errorf("%s: denials are logged every %v, with values: %t, and are in dynamic metadata: %t; want %+v", environment, l.Every, l.Values,
				s.Answers().DeniedMetadata, want)
		}
	}
}

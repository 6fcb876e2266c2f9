package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/ratelimit"
	"github.com/weirproxy/weir/server/rls"
)

// env is an environment of variables that are separated by spaces.
func env(variables string) Environment { return Of(strings.Fields(variables)...) }

// mustRead returns the settings of an environment that is right.
func mustRead(t *testing.T, variables string) Settings {
	t.Helper()
	s, err := Read(env(variables))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the parts of weir are configured by, of environments.
func TestReadTurnsVariablesIntoSettings(t *testing.T) {
	level := func(s *Settings) any { return slog.Level(s.LogLevel) }
	headers := func(s *Settings) any { return s.Answers().Headers }
	usual := rls.HeaderNames{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	request := usual
	request.Reset = "X-Reset"
	const named, on = " LIMIT_REQUEST_RESET_HEADER=X-Reset", "LIMIT_REQUEST_HEADERS_ENABLED=true"
	denials := func(s *Settings) any { // the interval of the log, whether it shows values, and whether metadata tell of denials
		l := s.DenialLog(nil, nil)
		return fmt.Sprint(l.Interval, l.Values, s.Answers().DeniedMetadata)
	}
	keys := func(s *Settings) any { return s.RatelimitKeys() }
	// What would answer without the certificate that a client must have is not served, and what may be turned off says by what.
	json := func(s *Settings) any { return s.Server().NoJSON }
	const tls = "GRPC_SERVER_USE_TLS=true GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k"
	fromXDS := func(s *Settings) any { return s.FromXDS() }
	where := func(s *Settings) any { // the counters, whether the history is in Redis, and whether serving downsamples it
		return fmt.Sprint(s.BackendType, " ", s.HistoryInRedis(), s.Downsamples())
	}
	for _, tc := range []struct {
		environment string
		got         func(*Settings) any
		want        any
	}{
		{"LOG_LEVEL=trace", level, slog.LevelDebug}, {"LOG_LEVEL=DEBUG", level, slog.LevelDebug}, {"LOG_LEVEL=info", level, slog.LevelInfo},
		{"LOG_LEVEL=WARN", level, slog.LevelWarn}, {"LOG_LEVEL=warning", level, slog.LevelWarn}, {"LOG_LEVEL=fatal", level, slog.LevelError},
		{named, headers, rls.Headers{}},
		{on + named, headers, rls.Headers{Request: request}},
		{on + named + " LIMIT_RESPONSE_HEADERS_ENABLED=true", headers, rls.Headers{Request: request, Response: usual}},
		{"", denials, "1m0s false true"}, {"DENIAL_LOG_INTERVAL=0 DENIAL_METADATA=false", denials, "0s false false"},
		{"DENIAL_LOG_INTERVAL=5m", denials, "5m0s false true"},
		{"", keys, ratelimit.Keys{Jitter: 300}}, {"EXPIRATION_JITTER_MAX_SECONDS=0", keys, ratelimit.Keys{}},
		{"EXPIRATION_JITTER_MAX_SECONDS=0 USE_CALENDAR_MONTH_RATE_LIMIT=true", keys, ratelimit.Keys{CalendarMonths: true}},
		{"", json, ""}, {tls, json, ""}, {"JSON_ENABLED=false", json, "/json is not served, as JSON_ENABLED is false."},
		{tls + " GRPC_CLIENT_TLS_CACERT=ca", json,
			"/json is not served, as it would answer without the client certificate that GRPC_CLIENT_TLS_CACERT asks for."},
		{"", fromXDS, false}, {"CONFIG_TYPE=", fromXDS, false}, {"CONFIG_TYPE=file", fromXDS, false},
		{"CONFIG_TYPE=GRPC_XDS_SOTW", fromXDS, true}, {"CONFIG_TYPE=grpc_xds_sotw", fromXDS, true},
		{"", where, "memory false true"}, {"REDIS_URL=r:1", where, "redis true false"},
		{"REDIS_HISTORY_URL=h:1", where, "memory true false"}, {"REDIS_HISTORY_URL=h:1 HISTORY_DOWNSAMPLE=true", where, "memory true true"},
		// Variables of a Redis that is not used are not checked.
		{"REDIS_PERSECOND_POOL_SIZE=-1 REDIS_URL=a:1", fromXDS, false},
		{"REDIS_POOL_SIZE=-1 REDIS_URL=a:1 BACKEND_TYPE=memory", fromXDS, false},
		// All hits are near, of a limit of 1e9 too.
		{"NEAR_LIMIT_RATIO=0", func(s *Settings) any { return s.Limits().NearRatio }, float32(0)},
	} {
		if s := mustRead(t, tc.environment); tc.got(&s) != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.environment, tc.got(&s), tc.want)
		}
	}
}

// What weir check finds right, weir serve takes.
func TestToolsReadFilesLikeTheServer(t *testing.T) {
	for _, environment := range []string{"", "ALGORITHM=fixed_window MERGE_DOMAIN_CONFIG=true",
		"MEMCACHE_HOST_PORT=m:1", "MEMCACHE_SRV=_m._tcp.example.com", "BACKEND_TYPE=memory MEMCACHE_HOST_PORT=m:1",
		"REDIS_URL=r:1 MEMCACHE_HOST_PORT=m:1", "REDIS_PERSECOND=true REDIS_PERSECOND_URL=p:1 REDIS_URL_FILE=/f"} {
		s := mustRead(t, environment)
		files, err := ReadFiles(env(environment))
		if err != nil || files.BackendType != s.BackendType || !reflect.DeepEqual(files.Options(), s.Rules()) {
			t.Errorf("%s: a tool reads files by %+v (%v), a server by %+v", environment, files.Options(), err, s.Rules())
		}
	}
}

// A chart or a compose file that passes on a variable that nobody has set, sets it to nothing.
func TestEmptyVariablesCountAsUnset(t *testing.T) {
	empty := make(Environment)
	for _, name := range Names() {
		if !mayBeEmpty(name) {
			empty[name] = ""
		}
	}
	got, err := Read(empty)
	if want := mustRead(t, ""); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the settings are %+v, %v; want %+v", got, err, want)
	}
	if s := mustRead(t, "DATA_DIR= LIMIT_LIMIT_HEADER= LIMIT_RESPONSE_HEADERS_ENABLED=true"); s.DataDir != "" || s.Answers().Headers.Response.Limit != "" {
		t.Errorf("the settings are %+v; want nothing saved, and a header left out", s)
	}
}

package ratelimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/cmd/weir/config"
	"github.com/weirproxy/weir/descriptors"
)

// env is an environment of variables that are separated by spaces.
func env(variables string) config.Environment { return config.Of(strings.Fields(variables)...) }

func mustRead(t *testing.T, variables string) Settings {
	t.Helper()
	s, err := Read(env(variables))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaultsAreThoseOfRatelimit(t *testing.T) {
	s := mustRead(t, "")
	if s.BackendType != "redis" || s.Algorithm != descriptors.FixedWindow || s.Keys().Format != descriptors.KeysOfRatelimit ||
		s.Redis.URL != "/var/run/nutcracker/ratelimit.sock" || s.Redis.SocketType != "unix" ||
		s.PerSecond.URL != "/var/run/nutcracker/ratelimitpersecond.sock" || s.PerSecond.SocketType != "unix" ||
		s.OnFailure != descriptors.PolicyError || s.DataDir != "" || s.KeepHistory || !s.Profiles ||
		s.DenialLogEvery != 0 || s.DenialMetadata || s.ServiceName != "RateLimit" || len(s.StatsdSinks()) != 1 || !s.CountsAsRatelimit() {
		t.Errorf("the defaults are %+v; want those of envoyproxy/ratelimit", s)
	}
	s = mustRead(t, "ALGORITHM=sliding_window BACKEND_TYPE=memory REDIS_URL=redis:6379 REDIS_PERSECOND_TYPE=sentinel REDIS_PERSECOND_URL=primary,s:1 "+
		"DENIAL_LOG_INTERVAL=5m USE_STATSD=false")
	if s.Algorithm != descriptors.SlidingWindow || s.KeyFormat != descriptors.KeysOfWeir || s.BackendType != "memory" ||
		s.Redis.URL != "redis:6379" || s.PerSecond.URL != "primary,s:1" || s.DenialLogEvery != 5*time.Minute || len(s.StatsdSinks()) != 0 {
		t.Errorf("the settings are %+v; want what is set", s)
	}
	for given, want := range map[string]descriptors.Algorithm{"": descriptors.FixedWindow, "ALGORITHM=token_bucket": descriptors.TokenBucket} {
		files, err := ReadFiles(env(given))
		if err != nil || files.Algorithm != want || files.OnFailure != descriptors.PolicyError || !files.Lenient {
			t.Errorf("%s: files are read by %+v (%v)", given, files, err)
		}
	}
}

// What weir's settings are, of environments of envoyproxy/ratelimit.
func TestReadTurnsVariablesIntoSettings(t *testing.T) {
	socket := func(s *Settings) string { return s.Redis.SocketType }
	// It reads the files of TLS only where TLS is on, and of half a pair none.
	tls := func(s *Settings) string {
		files := &s.BothRedis.TLSFiles
		return strings.Join([]string{files.CACert, files.ClientCert, files.ClientKey, s.XDSClientCert, s.XDSClientKey}, " ")
	}
	files := func(s *Settings) string {
		dir, prefix := s.ConfigFiles()
		return fmt.Sprint(dir, " ", prefix, " may be empty: ", s.EmptyConfig)
	}
	for _, tc := range []struct {
		given string
		got   func(*Settings) string
		want  string
	}{
		{"", socket, "unix"}, {"REDIS_URL=/run/redis.sock", socket, "unix"}, {"REDIS_URL=run/r.sock REDIS_TYPE=SINGLE", socket, "unix"},
		{"REDIS_URL=redis:6379", socket, ""}, {"REDIS_URL=redis://redis", socket, ""}, {"REDIS_URL_FILE=/run/url", socket, ""},
		{"REDIS_URL=redis:6379 REDIS_SOCKET_TYPE=unix", socket, "unix"}, // which is refused later
		{"REDIS_URL=redis:6379 REDIS_SOCKET_TYPE=tcp6", socket, "tcp"},
		{"REDIS_URL=primary,s:1 REDIS_TYPE=Sentinel REDIS_SOCKET_TYPE=unix", socket, ""},
		{"REDIS_TLS=false REDIS_TLS_CACERT=ca REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k", tls, "    "},
		{"REDIS_TLS=true REDIS_TLS_CACERT=ca REDIS_TLS_CLIENT_CERT=c REDIS_TLS_CLIENT_KEY=k", tls, "ca c k  "},
		{"REDIS_URL=rediss://r:1 REDIS_TLS_CACERT=ca REDIS_TLS_CLIENT_CERT=c", tls, "ca    "},
		{"REDIS_TLS=1 REDIS_TLS_CLIENT_KEY=k CONFIG_GRPC_XDS_CLIENT_TLS_KEY=k", tls, "    "},
		{"REDIS_HISTORY_URL_FILE=/f REDIS_TLS_CACERT=ca CONFIG_GRPC_XDS_CLIENT_TLS_CERT=c", tls, "ca    "},
		{"", files, "/srv/runtime_data/current config. may be empty: true"},
		{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", files, "/data/ratelimit config. may be empty: true"},
		{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_WATCH_ROOT=false", files, "/data/ratelimit/config  may be empty: true"},
		{"RUNTIME_ROOT=/data RUNTIME_APPDIRECTORY=a/b", files, "/data a.b. may be empty: true"},
	} {
		if s := mustRead(t, tc.given); tc.got(&s) != tc.want {
			t.Errorf("%s: got %q, want %q", tc.given, tc.got(&s), tc.want)
		}
	}
}

// Values with which envoyproxy/ratelimit starts.
func TestReadAcceptsEveryValueRatelimitAccepts(t *testing.T) {
	for _, values := range strings.Fields(`LOG_FORMAT=JSON|Json|xml| LOG_LEVEL=WARNING|Trace|panic BACKEND_TYPE= NEAR_LIMIT_RATIO=0|1.5|80|-1|NaN|1e-3
		LIMIT_LIMIT_HEADER=|a:b LIMIT_RESET_HEADER=X:Reset SHADOW_MODE=1|t|True|FALSE|0|F REDIS_PERSECOND=False|f REDIS_TLS=T PORT=0x1F90|0
		GRPC_MAX_CONNECTION_AGE=-1s|9ns|0|1h30m GRPC_MAX_CONNECTION_AGE_GRACE=-1m REDIS_TYPE=SINGLE|Single REDIS_SOCKET_TYPE=tcp4|tcp6|unix
		REDIS_POOL_SIZE=0|1 REDIS_TIMEOUT=0|-1s|10s REDIS_PIPELINE_WINDOW=-1us|150us REDIS_PIPELINE_LIMIT=-1|8
		REDIS_CLUSTER_PIPELINE_PARALLELISM=-1|0|4 REDIS_POOL_ON_EMPTY_BEHAVIOR=|wait|CREATE|error|other REDIS_STARTUP_INITIAL_INTERVAL=-1s|0
		REDIS_STARTUP_MAX_INTERVAL=-1s REDIS_STARTUP_MAX_ELAPSED_TIME=-1s EXPIRATION_JITTER_MAX_SECONDS=-5|0|0x10
		LOCAL_CACHE_SIZE_IN_BYTES=-5|100 XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=-1|0 XDS_CLIENT_BACKOFF_MAX_INTERVAL=-1s
		XDS_CLIENT_BACKOFF_RANDOM_FACTOR=0|-1|3 STATSD_PORT=99999|-1 STATSD_PROTOCOL=|UDP|tcp6|quic EXTRA_TAGS=|a:b,c:d RUNTIME_APPDIRECTORY= HOST=|::|[::]
		GRPC_CLIENT_TLS_CACERT=/ca GRPC_CLIENT_TLS_SAN=envoy
		ALGORITHM= KEY_FORMAT= ON_BACKEND_FAILURE= HISTORY= REPLICAS= DRAIN_DELAY= DATA_DIR= HISTORY_RETENTION= RING_ON_NODE_LOSS=
		HISTORY_DOWNSAMPLE=`) { // the last two lines are weir's own, which envoyproxy/ratelimit does not read
		name, all, _ := strings.Cut(values, "=")
		for value := range strings.SplitSeq(all, "|") {
			if _, err := Read(config.Environment{name: value}); err != nil {
				t.Errorf("%s=%s: it ends with %v, though envoyproxy/ratelimit starts", name, value, err)
			}
		}
	}
}

// What ends envoyproxy/ratelimit too, or is weir's own.
func TestReadRefusesUnreadableValues(t *testing.T) {
	for _, given := range []string{"BACKEND_TYPE=memory,redis", "MEMCACHE_SRV=m BACKEND_TYPE=memcache", "LOG_LEVEL=loud", "HISTORY=maybe", "DENIAL_LOG_INTERVAL=10ms", "REDIS_TIMEOUT=soon",
		"REDIS_TYPE=mesh REDIS_URL=a:1", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization=hunter2 CONFIG_TYPE=GRPC_XDS_SOTW"} {
		name, _, _ := strings.Cut(given, "=")
		if _, err := Read(env(given)); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want an error that names it, and nothing that may be secret", given, err)
		}
	}
}

// A variable is looked at only where its switch is on.
func TestWrongValuesOfUnusedSettingsPass(t *testing.T) {
	for _, tc := range []struct{ given, off, on string }{
		{"STATSD_PORT=many", "USE_STATSD=false", "USE_STATSD=true"},
		{"STATSD_PORT=many", "DISABLE_STATS=true", ""},
		{"USE_DOG_STATSD_MOGRIFIERS=A DOG_STATSD_MOGRIFIER_A_PATTERN=( DOG_STATSD_MOGRIFIER_A_NAME=a",
			"USE_DOG_STATSD=true DISABLE_STATS=true", "USE_DOG_STATSD=true"},
		{"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS=maybe", "", "USE_PROMETHEUS=true"},
		{"REDIS_PERSECOND_TYPE=mesh", "", "REDIS_PERSECOND=true"},
		{"REDIS_TYPE=mesh", "BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=m:1", "REDIS_URL=r:1"},
		{"REDIS_TYPE=mesh", "BACKEND_TYPE=memory", "BACKEND_TYPE=memory REDIS_HISTORY_URL=h:1"},
		{"MEMCACHE_TIMEOUT=soon", "", "BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=m:1"},
		{"MEMORY_MAX_KEYS=0", "", "BACKEND_TYPE=memory"},
		{"DATA_SAVE_INTERVAL=often", "BACKEND_TYPE=memory", "BACKEND_TYPE=memory DATA_DIR=/d"},
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=much", "", "CONFIG_TYPE=grpc_xds_sotw"},
		{"HISTORY_RETENTION=1h", "", "HISTORY=true"},
		{"HISTORY_FLUSH_INTERVAL=never", "HISTORY=false DATA_DIR=/d", "DATA_DIR=/d"},
		{"RLQS_TTL=1s", "", "RLQS_ENABLED=true"},
	} {
		if _, err := Read(env(tc.given + " " + tc.off)); err != nil {
			t.Errorf("%s with %q: it ends with %v, though nothing looks at it", tc.given, tc.off, err)
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(tc.given, "USE_"), "_")
		if _, err := Read(env(tc.given + " " + tc.on)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s with %q: got %v; want an error that names it", tc.given, tc.on, err)
		}
	}
}

func TestImplausibleValuesFallBackToDefaults(t *testing.T) {
	s := mustRead(t, "NEAR_LIMIT_RATIO=80 REDIS_TIMEOUT=-1s LIMIT_LIMIT_HEADER=a:b STATSD_PROTOCOL=quic STATSD_PORT=99999 LOG_FORMAT=logfmt")
	if s.NearRatio != 0.8 || s.Redis.Timeout != 500*time.Millisecond || s.LimitHeader != "RateLimit-Limit" || s.LogsJSON() {
		t.Errorf("the settings are %+v; want the defaults", s)
	}
	var log strings.Builder
	s.Warn(nil, slog.New(slog.NewTextHandler(&log, nil)))
	told, _, _ := strings.Cut(log.String(), "\n")
	for _, want := range []string{"level=WARN", "NEAR_LIMIT_RATIO=80: use", "REDIS_TIMEOUT=-1s: it", "LIMIT_LIMIT_HEADER", "STATSD_PROTOCOL", "STATSD_PORT", "LOG_FORMAT"} {
		if !strings.Contains(told, want) {
			t.Errorf("it tells %q; want %q in it", told, want)
		}
	}
}

func TestAuthVariablePrecedesTheURL(t *testing.T) {
	for _, tc := range []struct {
		kind, url, auth, sentinel        string
		wantURL, wantAuth, wantSentinels string
	}{
		{"single", "redis://ann:old@r:1/2", "", "", "redis://ann:old@r:1/2", "", ""},
		{"single", "redis://ann:old@r:1/2", "new", "", "redis://r:1/2", "ann:new", ""},
		{"single", "redis://ann@r:1?db=2", "new", "", "redis://r:1?db=2", "ann:new", ""},
		{"single", "redis://r:1?username=ann&password=old&x=1", "new", "", "redis://r:1", "ann:new", ""},
		{"single", "redis://r:1?password=old&x=1", "", "", "redis://r:1?password=old", "", ""},
		{"single", "redis://ann:old@r:1", "bob:new", "", "redis://r:1", "bob:new", ""},
		{"single", "r:1", "new", "", "r:1", "new", ""},
		{"sentinel", "p,redis://:old@s:1,s:2", "main", "new", "p,redis://s:1,s:2", "main", "new"},
		{"sentinel", "p,redis://:old@s:1", "main", "", "p,redis://:old@s:1", "main", ""},
		{"cluster", "redis://ann:old@a:1,redis://ann:old@b:1", "new", "", "redis://a:1,redis://b:1", "ann:new", ""},
	} {
		s, err := Read(config.Environment{"REDIS_TYPE": tc.kind, "REDIS_URL": tc.url, "REDIS_AUTH": tc.auth, "REDIS_SENTINEL_AUTH": tc.sentinel})
		if r := s.Redis; err != nil || r.URL != tc.wantURL || r.Auth != tc.wantAuth || r.SentinelAuth != tc.wantSentinels {
			t.Errorf("%+v becomes %q with %q and %q, %v", tc, r.URL, r.Auth, r.SentinelAuth, err)
		}
	}
}

func TestLogsUseRatelimitsFieldNames(t *testing.T) {
	logged := func(given string) string {
		s := mustRead(t, given)
		var out strings.Builder
		log := s.Logger(&out)
		log.Debug("a", "time", "noon")
		log.Info("b")
		log.Warn("c", "error", errors.New("broken"), "msg", slog.GroupValue(slog.String("level", "high")))
		log.Error("d")
		return out.String()
	}
	var words []string
	for line := range strings.Lines(logged("LOG_FORMAT=JSON LOG_LEVEL=trace")) {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		at, _ := got["@timestamp"].(string)
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			t.Errorf("%s: @timestamp is no time: %v", line, err)
		}
		level, _ := got["level"].(string)
		message, _ := got["@message"].(string)
		words = append(words, message+" "+level)
	}
	if got := strings.Join(words, ", "); got != "a debug, b info, c warning, d error" {
		t.Errorf("the lines are %q", got)
	}
	s := mustRead(t, "")
	var out strings.Builder
	if s.Logger(&out).Log(t.Context(), s.StartLevel, "listening"); !strings.Contains(out.String(), "level=info msg=listening") {
		t.Errorf("a start is told by %q; want it at the default LOG_LEVEL, as no warning", &out)
	}
	if got := logged(""); strings.Count(got, "\n") != 2 || !strings.Contains(got, "level=warning msg=c") || !strings.Contains(got, "level=error msg=d") {
		t.Errorf("without LOG_LEVEL the log is %q; want warnings and errors, in its words for levels", got)
	}
}

// It writes nothing unasked into a Redis that is shared, nor into a file system that may be read-only.
func TestHistoryIsKeptOnlyOnRequest(t *testing.T) {
	for given, want := range map[string]bool{
		"": false, "HISTORY=false": false, "HISTORY=false DATA_DIR=/data": false, "HISTORY=true": true, "DATA_DIR=/data": true,
		"REDIS_HISTORY_URL=h:1": true, "REDIS_HISTORY_URL_FILE=/f": true, "HISTORY=true BACKEND_TYPE=memory": true,
	} {
		if s := mustRead(t, given); s.KeepHistory != want {
			t.Errorf("%s: kept: %v, want %v", given, s.KeepHistory, want)
		}
	}
}

// What is said to be set for a history works where it is said.
func TestMissingHistoryRemedyFitsTheBackend(t *testing.T) {
	for given, want := range map[string]string{
		"":                    "in the Redis of the counters (in another: REDIS_HISTORY_URL as well)",
		"DATA_DIR=/data":      "in DATA_DIR=/data",
		"BACKEND_TYPE=memory": "in memory until the process ends (in a file: DATA_DIR as well)",
		"MEMCACHE_HOST_PORT=h:1 BACKEND_TYPE=memcache":  "in memory until the process ends (in a file: DATA_DIR as well)",
		"HISTORY=false BACKEND_TYPE=memory DATA_DIR=/d": "in DATA_DIR=/d",
		"HISTORY=false REDIS_HISTORY_URL=h:1":           "in the Redis of REDIS_HISTORY_URL",
	} {
		s := mustRead(t, given)
		if got := s.HistoryRemedy(); got != "set HISTORY=true to keep one "+want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
		s = mustRead(t, strings.Replace(given, "HISTORY=false", "", 1)+" HISTORY=true")
		if inRedis := strings.Contains(want, "Redis of"); !s.KeepHistory || s.HistoryInRedis() != inRedis || !inRedis && (s.DataDir == "") != strings.Contains(want, "memory") {
			t.Errorf("%s, and HISTORY=true: kept %v, in Redis %v, in %q; the remedy is %q", given, s.KeepHistory, s.HistoryInRedis(), s.DataDir, want)
		}
	}
}

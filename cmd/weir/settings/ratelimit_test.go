package settings

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

func TestTheNameDecidesTheDefaults(t *testing.T) {
	weir := mustRead(t, "weir")
	if weir.BackendType != "memory" || weir.Redis.URL != "" || weir.Algorithm != descriptors.SlidingWindow {
		t.Errorf("started as weir the defaults are %+v; want rolling windows in memory", weir)
	}
	other := mustRead(t, dropIn)
	if other.BackendType != "redis" || other.Algorithm != descriptors.FixedWindow ||
		other.Redis.URL != "/var/run/nutcracker/ratelimit.sock" || other.Redis.SocketType != "unix" ||
		other.PerSecond.URL != "/var/run/nutcracker/ratelimitpersecond.sock" || other.PerSecond.SocketType != "unix" ||
		other.BothRedis.Persecond {
		t.Errorf("started as ratelimit the defaults are %+v; want those of envoyproxy/ratelimit", other)
	}
}

func TestWhatIsSetGoesBeforeTheDefaultsOfAName(t *testing.T) {
	t.Setenv("ALGORITHM", "sliding_window")
	t.Setenv("BACKEND_TYPE", "memory")
	t.Setenv("REDIS_URL", "redis:6379")
	t.Setenv("REDIS_PERSECOND_TYPE", "sentinel")
	t.Setenv("REDIS_PERSECOND_URL", "primary,s:1")
	s := mustRead(t, dropIn)
	if s.Algorithm != descriptors.SlidingWindow || s.BackendType != "memory" || s.Redis.URL != "redis:6379" ||
		s.PerSecond.URL != "primary,s:1" {
		t.Errorf("the settings are %+v; want what is set", s)
	}
}

func TestASocketIsTheDefaultUnlessTheURLHasAPort(t *testing.T) {
	for _, tc := range []struct{ url, urlFile, kind, socketType, want string }{
		{"", "", "single", "", "unix"},
		{"/run/redis.sock", "", "single", "", "unix"},
		{"run/redis.sock", "", "SINGLE", "", "unix"},
		{"redis:6379", "", "single", "", ""},
		{"redis://redis", "", "single", "", ""},
		{"redis:6379", "", "single", "unix", "unix"}, // which is refused later
		{"redis:6379", "", "single", "tcp", "tcp"},
		{"primary,s:1", "", "sentinel", "", ""},
		{"", "/run/url", "single", "", ""},
	} {
		s := Redis{URL: tc.url, URLFile: tc.urlFile, SocketType: tc.socketType}
		if err := s.Type.UnmarshalText([]byte(tc.kind)); err != nil {
			t.Fatal(err)
		}
		if s.asRatelimit(ratelimitSocket); s.SocketType != tc.want {
			t.Errorf("%+v: the socket type is %q, want %q", tc, s.SocketType, tc.want)
		}
	}
}

func TestTheCommandLineNamesTheProgram(t *testing.T) {
	for _, tc := range []struct {
		line, as, arguments string
	}{
		{"weir", "weir", ""},
		{"/bin/weir serve --config /data", "weir", "serve --config /data"},
		{"/bin/ratelimit", "ratelimit", ""},
		{"ratelimit --quotaRateLimitServiceAddr=a:1", "ratelimit", "--quotaRateLimitServiceAddr=a:1"},
		{"/bin/weir /bin/ratelimit", "ratelimit", ""},
		{"/bin/weir /usr/local/bin/ratelimit -v", "ratelimit", "-v"},
		{"/bin/weir ratelimit", "ratelimit", ""},
		{"/bin/weir /bin/ratelimit_client -domain d", "ratelimit_client", "-domain d"},
		{"/bin/weir /bin/ratelimit_config_check", "ratelimit_config_check", ""},
		{"/bin/ratelimit /bin/ratelimit_client", "ratelimit", "/bin/ratelimit_client"}, // which the first does not read
		{"/bin/weir call ratelimit", "weir", "call ratelimit"},
		{"", "weir", ""},
	} {
		as, arguments := Started(strings.Fields(tc.line))
		if string(as) != tc.as || strings.Join(arguments, " ") != tc.arguments {
			t.Errorf("%q starts %s with %q; want %s with %q", tc.line, as, arguments, tc.as, tc.arguments)
		}
	}
}

func TestStartedAsRatelimitItServesWhateverItsArguments(t *testing.T) {
	for _, given := range [][]string{nil, {"version"}, {"--config", "dir"}, {"--help"}} {
		if meant, ignored := dropIn.Arguments(given); !slices.Equal(meant, []string{"serve"}) || !slices.Equal(ignored, given) {
			t.Errorf("ratelimit %q means %q without %q, want serve, and nothing of it to be read", given, meant, ignored)
		}
	}
	given := []string{"version"}
	if meant, ignored := Program("weir").Arguments(given); !slices.Equal(meant, given) || ignored != nil {
		t.Errorf("weir version means %q without %q", meant, ignored)
	}
}

func TestStartedAsRatelimitItSaysWhatDiffers(t *testing.T) {
	fixed := Files{Algorithm: descriptors.FixedWindow}
	plain := Files{Algorithm: descriptors.FixedWindow, KeyFormat: descriptors.KeysOfRatelimit}
	for _, tc := range []struct {
		as   Program
		set  Settings
		want []string // on the line; none at all if empty
		hint bool
	}{
		{"weir", Settings{Files: plain, BackendType: "redis"}, nil, false},
		{dropIn, Settings{Files: plain, BackendType: "redis"}, []string{"level=WARN+1", "counters carry over", "and back"}, true}, // which shows as info
		{dropIn, Settings{Files: fixed, BackendType: "redis"}, []string{"level=WARN ", "do not carry over", "KEY_FORMAT is weir"}, true},
		{dropIn, Settings{Files: plain, BackendType: "memory"}, []string{"level=WARN ", "counters are in memory"}, true},
		{dropIn, Settings{BackendType: "redis"}, []string{"level=WARN ", "do not carry over"}, false},
	} {
		var log strings.Builder
		tc.set.as = tc.as
		tc.as.Warn(&tc.set, nil, slog.New(slog.NewTextHandler(&log, nil)))
		got := log.String()
		if strings.Count(got, "level=WARN") != min(len(tc.want), 1) || strings.Contains(got, "ALGORITHM=sliding_window gives rolling") != tc.hint {
			t.Errorf("%s warns %q; want %q on one line, and to hear of rolling windows: %v", tc.as, got, tc.want, tc.hint)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s warns %q; want it to say %q", tc.as, got, want)
			}
		}
	}
}

func TestIgnoredArgumentsAreToldWithoutWhatMayBeSecret(t *testing.T) {
	var log strings.Builder
	dropIn.Warn(&Settings{}, []string{"--quotaRateLimitServiceAddr=a:1", "-token", "hunter2", "--pass=hunter2"},
		slog.New(slog.NewTextHandler(&log, nil)))
	told, _, _ := strings.Cut(log.String(), "\n")
	for _, want := range []string{"level=WARN", "arguments=4", `flags="--quotaRateLimitServiceAddr -token --pass"`, "/bin/weir"} {
		if !strings.Contains(told, want) {
			t.Errorf("arguments are told of by %q, want %q in it", told, want)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log shows an argument's value: %s", &log)
	}
}

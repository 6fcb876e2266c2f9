package settings

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/weirproxy/weir/descriptors"
)

func TestTheNameDecidesTheDefaults(t *testing.T) {
	weir, err := Read(ProgramOf("/usr/bin/weir"))
	if err != nil {
		t.Fatal(err)
	}
	if weir.BackendType != "memory" || weir.Redis.URL != "" || weir.Algorithm != descriptors.SlidingWindow {
		t.Errorf("started as weir the defaults are %+v; want rolling windows in memory", weir)
	}
	other, err := Read(ProgramOf("/bin/ratelimit"))
	if err != nil {
		t.Fatal(err)
	}
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
	s, err := Read(dropIn)
	if err != nil {
		t.Fatal(err)
	}
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

func TestStartedAsRatelimitItServesAndSaysWhatDiffers(t *testing.T) {
	if got := dropIn.Arguments(nil); !slices.Equal(got, []string{"serve"}) {
		t.Errorf("ratelimit alone means %q, want serve", got)
	}
	if got := dropIn.Arguments([]string{"version"}); !slices.Equal(got, []string{"version"}) {
		t.Errorf("ratelimit version means %q", got)
	}
	if got := Program("weir").Arguments(nil); len(got) != 0 {
		t.Errorf("weir alone means %q, want its usage", got)
	}
	for _, tc := range []struct {
		as        Program
		algorithm descriptors.Algorithm
		lines     int
		hint      bool
	}{
		{"weir", descriptors.FixedWindow, 0, false},
		{dropIn, descriptors.FixedWindow, 1, true},
		{dropIn, descriptors.SlidingWindow, 1, false},
	} {
		var log strings.Builder
		tc.as.Warn(&Settings{Files: Files{Algorithm: tc.algorithm}}, slog.New(slog.NewTextHandler(&log, nil)))
		got := log.String()
		if strings.Count(got, "level=WARN") != tc.lines || strings.Contains(got, "do not carry over") != (tc.lines == 1) ||
			strings.Contains(got, "ALGORITHM=sliding_window") != tc.hint {
			t.Errorf("%s with %v warns %q; want %d lines, and to hear of rolling windows: %v",
				tc.as, tc.algorithm, got, tc.lines, tc.hint)
		}
	}
}

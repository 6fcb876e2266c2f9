package ratelimit

import (
	"log/slog"
	"strings"
	"testing"
)

func TestCommandLineNamesTheProgram(t *testing.T) {
	for _, tc := range []struct{ line, program, arguments string }{
		{"weir", "", ""},
		{"/bin/weir serve --config /data", "", "serve --config /data"},
		{"/bin/ratelimit", Server, ""},
		{"ratelimit --quotaRateLimitServiceAddr=a:1", Server, "--quotaRateLimitServiceAddr=a:1"},
		{"/bin/weir /bin/ratelimit", Server, ""},
		{"/bin/weir /usr/local/bin/ratelimit -v", Server, "-v"},
		{"/bin/weir ratelimit", Server, ""},
		{"/bin/weir /bin/ratelimit_client -domain d", Client, "-domain d"},
		{"/bin/weir /bin/ratelimit_config_check", Check, ""},
		{"/bin/ratelimit /bin/ratelimit_client", Server, "/bin/ratelimit_client"}, // which the first does not read
		{"/bin/weir call ratelimit", "", "call ratelimit"},
		{"", "", ""},
	} {
		program, arguments := Started(strings.Fields(tc.line))
		if program != tc.program || strings.Join(arguments, " ") != tc.arguments {
			t.Errorf("%q starts %q with %q; want %q with %q", tc.line, program, arguments, tc.program, tc.arguments)
		}
	}
}

func TestWarnTellsDifferencesFromRatelimit(t *testing.T) {
	for given, want := range map[string]struct {
		told []string
		hint bool
	}{
		"":                         {[]string{"counters carry over", "and back"}, true},
		"KEY_FORMAT=weir":          {[]string{"do not carry over", "KEY_FORMAT is weir"}, true},
		"BACKEND_TYPE=memory":      {[]string{"counters are in memory"}, true},
		"ALGORITHM=sliding_window": {[]string{"do not carry over"}, false},
		"ALGORITHM=sliding_window KEY_FORMAT=ratelimit": {[]string{"algorithm: fixed_window carry over", "and no others"}, false},
	} {
		s := mustRead(t, given)
		var log strings.Builder
		s.Warn(nil, slog.New(slog.NewTextHandler(&log, nil)))
		got, _, _ := strings.Cut(log.String(), "\n")
		if !strings.Contains(got, "level=WARN") || strings.Contains(got, "ALGORITHM=sliding_window gives rolling") != want.hint {
			t.Errorf("%s: it warns %q; want to hear of rolling windows: %v", given, got, want.hint)
		}
		for _, told := range want.told {
			if !strings.Contains(got, told) {
				t.Errorf("%s: it warns %q; want it to say %q", given, got, told)
			}
		}
	}
}

func TestIgnoredArgumentsAreLoggedWithoutSecrets(t *testing.T) {
	var log strings.Builder
	new(Settings).Warn([]string{"--quotaRateLimitServiceAddr=a:1", "-token", "hunter2", "--pass=hunter2"}, slog.New(slog.NewTextHandler(&log, nil)))
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

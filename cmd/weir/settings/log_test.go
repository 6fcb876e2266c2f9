package settings

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// logged is what a program writes of one line at each level.
func logged(t *testing.T, as Program) string {
	t.Helper()
	s := mustRead(t, as)
	var out strings.Builder
	log := s.Logger(&out)
	log.Debug("a", "time", "noon")
	log.Info("b")
	log.Warn("c", "error", errors.New("broken"), "msg", slog.GroupValue(slog.String("level", "high")))
	log.Error("d")
	return out.String()
}

func TestJSONLogsHaveTheKeysOfRatelimitUnderItsName(t *testing.T) {
	t.Setenv("LOG_FORMAT", "JSON")
	t.Setenv("LOG_LEVEL", "trace")
	var words []string
	for line := range strings.Lines(logged(t, dropIn)) {
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
	own := logged(t, "weir")
	for _, want := range []string{`"time":`, `"level":"WARN"`, `"msg":"c"`} {
		if !strings.Contains(own, want) {
			t.Errorf("as weir the log is %s; want %s in it, as log collectors are set up for", own, want)
		}
	}
}

// A start at which nothing is wrong is told at the default LOG_LEVEL, as there, and is no warning.
func TestAStartIsToldAsRatelimitAndIsNoWarning(t *testing.T) {
	for as, want := range map[Program]string{dropIn: "level=info msg=listening", "weir": "level=INFO msg=listening"} {
		s := mustRead(t, as)
		var out strings.Builder
		s.Logger(&out).Log(t.Context(), s.StartLevel(), "listening")
		if !strings.Contains(out.String(), want) || s.Server().TellStart != s.StartLevel() {
			t.Errorf("as %s the log is %q; want %q in it", as, &out, want)
		}
	}
}

func TestOnlyWarningsAreLoggedAsRatelimit(t *testing.T) {
	for as, want := range map[Program]int{dropIn: 2, "weir": 3} {
		if got := logged(t, as); strings.Count(got, "\n") != want {
			t.Errorf("as %s, without LOG_LEVEL, the log is %q; want %d lines", as, got, want)
		}
	}
	if got := logged(t, dropIn); !strings.Contains(got, "level=warning msg=c") || !strings.Contains(got, "level=error msg=d") {
		t.Errorf("as ratelimit the log is %q; want its words for levels in text too", got)
	}
}

package throttle

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLinesRepeatChangesAndAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines Lines
		for i, step := range []struct {
			subject, text string
			again, after  time.Duration
			want          bool
		}{
			{"a", "x", 0, 0, true},
			{"a", "x", 0, time.Hour, false},
			{"b", "x", 0, 0, true},
			{"a", "y", 0, 0, true},
			{"a", "x", 0, 0, true},
			{"a", "x", time.Minute, time.Minute - 1, false},
			{"a", "x", time.Minute, 1, true},
			{"a", "x", time.Minute, 0, false},
		} {
			time.Sleep(step.after)
			if got := lines.Due(step.subject, step.text, step.again); got != step.want {
				t.Errorf("step %d: %q about %q is to be logged: %v, want %v", i+1, step.text, step.subject, got, step.want)
			}
		}
	})
}

func TestWarnLogsAMessageEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines Lines
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		lines.Warn(nil, "often")
		for range 120 {
			lines.Warn(log, "often", "n", 1)
			time.Sleep(time.Second)
		}
		lines.Warn(log, "rare")
		if often, rare := strings.Count(out.String(), "msg=often n=1"), strings.Count(out.String(), "msg=rare"); often != 2 || rare != 1 {
			t.Errorf("in two minutes one message was logged %d times, another %d; want 2 and 1", often, rare)
		}
	})
}

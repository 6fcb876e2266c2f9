package denials

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/server/byrule"
)

// runLog runs a Log while do records denials, and returns its lines without their times. The test is in a synctest bubble.
func runLog(t *testing.T, w *world, l Log, do func()) []string {
	t.Helper()
	var to bytes.Buffer
	l.Recorder, l.To = w.recorder, slog.New(slog.NewTextHandler(&to, nil))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	do()
	end()
	<-ended
	lines := strings.Split(strings.TrimSpace(to.String()), "\n")
	for i := range lines {
		_, lines[i], _ = strings.Cut(lines[i], " ") // behind the time
	}
	return lines
}

func TestRuleLogsItsDenialsEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		lines := runLog(t, w, Log{Interval: time.Minute}, func() {
			time.Sleep(time.Second / 2)
			for range 125 { // seconds
				w.deny(time.Now(), 2, false, entry("user", "ann\nlevel=ERROR"))
				time.Sleep(time.Second)
			}
			time.Sleep(10 * time.Minute)
		})
		const line = `level=INFO msg="requests denied" domain=shop rule=user limit=2/minute requests=`
		want := []string{line + "60 decided_by=store", line + "60 decided_by=store", line + "5 decided_by=store"}
		if !slices.Equal(lines, want) {
			t.Errorf("of 125 seconds of denials are logged\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestLogHasValuesOnlyOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		lines := runLog(t, w, Log{Interval: time.Minute, Values: true}, func() {
			w.deny(time.Now(), 2, true, entry("user", "ann\nlevel=ERROR \x1b[2J"))
			time.Sleep(2 * time.Minute)
		})
		want := `level=INFO msg="requests over a limit passed in shadow mode" domain=shop rule=user limit=2/minute ` +
			`requests=1 decided_by=store descriptor="user=ann\nlevel=ERROR \x1b[2J"`
		if len(lines) != 1 || lines[0] != want {
			t.Errorf("logged is\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
		}
	})
}

func TestManyRulesLogTenLinesPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rules, rounds = 50, 20
		var text strings.Builder
		text.WriteString("domain: shop\ndescriptors:\n")
		for i := range rules {
			fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
		}
		w := newWorld(t, text.String())
		lines := runLog(t, w, Log{Interval: time.Minute}, func() {
			for range rounds {
				for i := range rules {
					w.deny(time.Now(), 1, false, entry("user", fmt.Sprint("u", i)))
				}
				time.Sleep(time.Second)
			}
			time.Sleep(rules / maxLines * time.Minute)
		})
		told := 0
		for _, line := range lines {
			var n int
			_, after, _ := strings.Cut(line, "requests=")
			fmt.Sscan(after, &n)
			told += n
		}
		if len(lines) != rules || told != rules*rounds {
			t.Errorf("%d lines tell of %d denials, want one of each rule, ten a minute, and all %d denials", len(lines), told, rules*rounds)
		}
	})
}

func TestZeroIntervalLogsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		lines := runLog(t, w, Log{}, func() {
			w.deny(time.Now(), 1, false, entry("tenant", "a"))
			w.apply(t, "domain: shop")
			time.Sleep(byrule.Grace + 3*time.Minute)
		})
		if lines[0] != "" {
			t.Errorf("logged is %q; want nothing", lines)
		}
		if n := len(w.recorder.List(Filter{})); n != 0 {
			t.Errorf("%d rules that are gone are kept", n)
		}
	})
}

package denials

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/server/byrule"
)

// logged runs a log in a bubble with a clock of its own while do denies, and returns its lines.
func logged(t *testing.T, w *world, l Log, do func()) []string {
	t.Helper()
	var to bytes.Buffer
	l.Recorder, l.To = w.recorder, slog.New(slog.NewTextHandler(&to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	do()
	end()
	<-ended
	return strings.Split(strings.TrimSpace(to.String()), "\n")
}

func TestARuleGetsALineAnIntervalWithWhatItDeniedSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		lines := logged(t, w, Log{Interval: time.Minute}, func() {
			time.Sleep(time.Second / 2)
			for range 125 { // seconds
				w.deny(time.Now(), 2, false, entry("user", "ann"))
				time.Sleep(time.Second)
			}
		})
		if len(lines) != 3 {
			t.Fatalf("%d lines in 125 seconds of denials; want one at once, and one a minute:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		if want := `level=INFO msg="requests are denied: a limit is reached" domain=shop rule=user limit=2/minute denied_requests=`; !strings.HasPrefix(lines[0], want) {
			t.Errorf("the first line is\n%s\nwant\n%s", lines[0], want)
		}
		if !strings.Contains(lines[2], "denied_requests=60 denied_hits=120 within=1m0s again_in=1m0s decided_by=store") {
			t.Errorf("the third line is\n%s\nwant what was denied in the minute since the line before", lines[2])
		}
		if strings.Contains(strings.Join(lines, ""), "ann") {
			t.Error("the log shows values of descriptors, which nobody asked for")
		}
	})
}

func TestALineSaysWhoseFaultADenialIsAndValuesOnlyOnRequest(t *testing.T) {
	const shadowed = `level=INFO msg="requests would be denied, were it not for shadow mode: a limit is reached" domain=shop rule=user limit=10/minute ` +
		`name=burst denied_requests=1 denied_hits=1 again_in=never decided_by=store descriptor="user=ann\nlevel=ERROR \x1b[2J"`
	const away = `level=WARN msg="requests are denied: the store is away, and the failure policy is deny" domain=shop rule=user limit=10/minute ` +
		`name=burst denied_requests=1 denied_hits=1 again_in=never decided_by=policy`
	for want, denial := range map[string]Denial{shadowed: {}, away: {Source: backend.FromPolicy}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, shop)
			lines := logged(t, w, Log{Interval: time.Minute, Values: want == shadowed}, func() {
				d := entry("user", "ann\nlevel=ERROR \x1b[2J")
				rule := w.config.Match("shop", d).Rule
				denial.At, denial.RetryIn, denial.Limit, denial.Hits = time.Now(), backend.Never, rule.Limits[0], 1
				w.table.Note(rule, "shop", want == shadowed, &denial, d)
				time.Sleep(2 * time.Second)
			})
			if len(lines) != 1 || lines[0] != want {
				t.Errorf("logged is\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
			}
		})
	}
}

func TestThousandRulesWriteTenLinesASecondAndLoseNoDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rules, seconds = 200, 300
		var text strings.Builder
		text.WriteString("domain: shop\ndescriptors:\n")
		for i := range rules {
			fmt.Fprintf(&text, "- {key: user, value: u%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
		}
		w := newWorld(t, text.String())
		lines := logged(t, w, Log{Interval: time.Minute}, func() {
			for range seconds {
				for i := range rules {
					w.deny(time.Now(), 1, false, entry("user", fmt.Sprint("u", i)))
				}
				time.Sleep(time.Second)
			}
			time.Sleep(2 * time.Minute) // nothing is denied any more: what is left is told
		})
		if n := len(lines); n > 10*(seconds+120) || n < rules {
			t.Errorf("%d lines; want each of %d rules at least once, and at most ten a second", n, rules)
		}
		told, perRule := 0, make(map[string]int)
		for _, line := range lines {
			if m := regexp.MustCompile(`rule=(\S+) .*denied_requests=(\d+)`).FindStringSubmatch(line); m != nil {
				var n int
				fmt.Sscan(m[2], &n)
				told += n
				perRule[m[1]]++
			}
		}
		if told != rules*seconds {
			t.Errorf("the lines tell of %d denials, of %d: none may be lost", told, rules*seconds)
		}
		for rule, n := range perRule {
			if n > (seconds+120)/60+1 {
				t.Errorf("%s has %d lines in %d seconds; want one a minute at most", rule, n, seconds+120)
			}
		}
	})
}

func TestAnIntervalOfZeroLogsNothingAndStillForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		lines := logged(t, w, Log{}, func() {
			w.deny(time.Now(), 1, false, entry("tenant", "a"))
			w.apply(t, moved)
			time.Sleep(byrule.Grace + time.Minute)
		})
		if lines[0] != "" {
			t.Errorf("logged is %q; want nothing", lines)
		}
		if n := len(w.recorder.List(Filter{})); n != 0 {
			t.Errorf("%d rules that are gone are kept", n)
		}
	})
}

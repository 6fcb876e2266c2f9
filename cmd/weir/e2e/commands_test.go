package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestCallExitCodeTellsTheVerdict(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, weirtest.Rule("basic", "unit: hour, requests_per_unit: 1"))
	nobody := process.Addr(t)
	for _, c := range []struct {
		promise string
		addr    string
		flags   string
		want    int
	}{
		{"under the limit is 0", w.GRPC, "", 0},
		{"over the limit is 1", w.GRPC, "", 1},
		{"a look over the limit is 1", w.GRPC, "--hits 0", 1},
		{"a refund is 0", w.GRPC, "--refund", 0},
		{"one hit fits again", w.GRPC, "", 0},
		{"many calls, all over, are 1", w.GRPC, "--rate 20 --for 200ms", 1},
		{"nobody there is 2", nobody, "", 2},
	} {
		args := append([]string{"call", "--timeout", "2m", "--addr", c.addr, "--domain", "shop", "--descriptor", "plan=basic,user=ann"}, strings.Fields(c.flags)...)
		if printed, got := process.Command(t, nil, process.Weir(t), args...); got != c.want {
			t.Errorf("%s: the exit code is %d, want %d; it printed:\n%s", c.promise, got, c.want, printed)
		}
	}
}

// wantCommands runs commands that ask a weir, and wants their exit code and what they print.
func wantCommands(t *testing.T, w *weirtest.Weir, commands ...wanted) {
	t.Helper()
	for _, c := range commands {
		printed, code := w.Command(t, strings.Fields(c.args)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(printed, want) {
				t.Errorf("weir %s ended with %d, want %d, and printed\n%s\nwant %q in it", c.args, code, c.code, printed, want)
			}
		}
	}
}

// wanted is a command line with what it is to end with and to print.
type wanted struct {
	args string
	code int
	want []string
}

// An operator asks a weir that is running who is over a limit, what was denied, and what was counted.
func TestCommandsShowCountersAndDenials(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, weirtest.Rule("a/b", "unit: hour, requests_per_unit: 2, name: hourly"),
		"LOG_LEVEL=debug", "HISTORY_FLUSH_INTERVAL=1s", "DENIAL_LOG_INTERVAL=1s")
	wantCommands(t, w, wanted{"denials", 0, []string{"Nothing was denied since this weir started"}})
	hits(t, w.Client(t), 5, "a/b", "ann\x1b[2J")
	hits(t, w.Client(t), 1, "a/b", "bob")
	weirtest.Eventually(t, "hits are in the history one flush after they came", func() error {
		if printed, code := w.Command(t, "history", "show", "--outcome", "over"); code != 0 || !strings.Contains(printed, "lifetime 3") {
			return fmt.Errorf("weir history show ended with %d and printed\n%s\nwant 3 hits over", code, printed)
		}
		return nil
	})
	wantCommands(t, w,
		wanted{"counters top --domain shop", 0, []string{"this weir alone", "2/hour  plan=a/b/user  plan=a/b,user=ann\uFFFD[2J\n",
			"plan=a/b/user  plan=a/b,user=bob\n", "Counts of hits are exact."}},
		wanted{"counters top --domain shop --by over", 0, []string{"   5     3     1 "}},
		wanted{"counters top --domain shpo", 2, []string{"404: No file configures domain shpo. The configured ones are"}},
		wanted{"denials --domain shop --path plan=a/b/user", 0, []string{"plan=a/b/user  2/hour hourly  3"}},
		wanted{"denials --values", 0, []string{"plan=a/b,user=ann\uFFFD[2J\n"}}, // nothing that a terminal obeys
		wanted{"history top --by over", 0, []string{"shop plan=a/b/user"}},
		wanted{"history verify", 0, []string{"each holds exactly what it ever counted"}})
	w.Says(t, `msg="requests denied" domain=shop rule="plan=a/b/user" limit=2/hour`)
	for line := range strings.Lines(w.Log.String()) {
		if strings.Contains(line, "ann") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("a value is in the log, and only LOG_LEVEL=debug asks for some: %s", line)
		}
	}
}

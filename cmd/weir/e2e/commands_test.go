package e2e_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
	"github.com/weirproxy/weir/server/ranking"
)

func TestCallSaysInItsExitCodeWhetherARequestPasses(t *testing.T) {
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

// Whoever types weir check - and means something else must get out of it, and so must a pipeline that is cancelled.
func TestACheckThatWaitsForItsInputIsEndedByASignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		check := exec.Command(process.Weir(t), "check", "-")
		input, err := check.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Start(); err != nil {
			t.Fatal(err)
		}
		// More than a pipe holds, so that it has begun to read.
		if _, err := input.Write(bytes.Repeat([]byte("# more comes\n"), 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := check.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		late := time.AfterFunc(process.Hang, func() { _ = check.Process.Kill() })
		if err := check.Wait(); !late.Stop() || err == nil || !strings.Contains(err.Error(), signal.String()) {
			t.Errorf("after %v weir check - ends with %v; want that this signal ends it", signal, err)
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

// Three users under a limit of 10 an hour: ann is over, bob is near, cara is not.
func TestAnOperatorSeesWhoIsOverNow(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, tenAnHour, "REDIS_URL="+redistest.Single(t).Addr, "HISTORY=false", weirtest.PatientRedis)
	c := w.Client(t)
	awaitCounts(t, c, "basic/1")
	for user, n := range map[string]int{"ann": 12, "bob": 8, "cara": 1} {
		hits(t, c, n, "basic/1", user)
	}
	printed, code := w.Command(t, "counters", "top", "--domain", "shop", "--path", "plan=basic/1/user", "--json", "-n", "2", "--for", "30s")
	var a ranking.Answer
	if err := json.Unmarshal([]byte(printed), &a); err != nil || code != 0 {
		t.Fatalf("it ended with %d and printed %s", code, printed)
	}
	if len(a.Top) != 2 || a.Top[0].Descriptor != "plan=basic/1,user=ann" || a.Top[0].Remaining != 0 || a.Top[0].Path != "plan=basic%2F1/user" ||
		a.Top[1].Descriptor != "plan=basic/1,user=bob" || a.Top[1].Hits != 8 || a.Over != 1 || a.Counted != 3 || !a.Complete {
		t.Errorf("got %s\nwant ann, who is over, before bob, and cara counted, but not among the first two", printed)
	}
	wantCommands(t, w,
		wanted{"counters top --domain shop", 0, []string{"3 keys have hits, 1 has nothing left",
			"plan=basic/1,user=ann   rule plan=basic/1/user", "Saw all"}},
		wanted{"counters top --domain shpo", 2, []string{"404: No file configures domain shpo. Did you mean shop?"}},
		wanted{"counters top --domain shop --for 2", 2, []string{"--for"}})
}

func TestWhyARequestWasDeniedIsLoggedServedAndPrinted(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, enforced, "LOG_LEVEL=debug")
	c := w.Client(t)
	wantCommands(t, w, wanted{"denials", 0, []string{"Nothing was denied since this weir started"}})
	hits(t, c, 5, "a/b", "ann\x1b[2J")
	hits(t, c, 1, "watched", "eve")
	wantDenials(t, w)
	printed, code := w.Command(t, "denials", "--domain", "shop", "--path", "plan=a/b/user")
	if code != 0 || !strings.Contains(printed, "plan=a/b/user  2/hour hourly  3") || strings.Contains(printed, "ann") {
		t.Errorf("weir denials ends with %d and prints\n%s\nwant the rule, its limit and 3 denials, and no value", code, printed)
	}
	wantCommands(t, w,
		wanted{"denials --values", 0, []string{"plan=a/b,user=ann\uFFFD[2J\n"}}, // nothing that a terminal obeys
		wanted{"denials --domain shpo", 2, []string{"No file configures domain shpo"}})
	w.Says(t, `msg="requests are denied: a limit is reached" domain=shop rule="plan=a/b/user" limit=2/hour name=hourly`,
		`msg="requests would be denied, were it not for shadow mode: a limit is reached" domain=shop rule="plan=watched/user"`)
	for line := range strings.Lines(w.Log.String()) {
		if strings.Contains(line, "ann") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("a value is in the log, and only LOG_LEVEL=debug asks for some: %s", line)
		}
	}
	saysTimes(t, w, "level=DEBUG msg=request", 6)
}

// wantDenials wants what was denied as the admin port has it, newest first.
func wantDenials(t *testing.T, w *weirtest.Weir) {
	t.Helper()
	var a struct {
		Denials []struct {
			Domain, Path, Limit, Name, Descriptor string
			Retry                                 *int64 `json:"retry_seconds"`
			Hits                                  int    `json:"denied_hits"`
			Shadow                                bool
		}
	}
	text, err := weirtest.Get(w.Admin + "/api/v1/denials?values=true")
	if err != nil || json.Unmarshal([]byte(text), &a) != nil || len(a.Denials) != 2 {
		t.Fatalf("the port answers %s (%v); want both rules", text, err)
	}
	if d := a.Denials[0]; !d.Shadow || d.Path != "plan=watched/user" || d.Descriptor != "plan=watched,user=eve" || d.Retry != nil {
		t.Errorf("the newest is %+v; want what shadow mode let through, which never passes", d)
	}
	if d := a.Denials[1]; d.Path != "plan=a%2Fb/user" || d.Limit != "2/hour" || d.Name != "hourly" || d.Hits != 3 || d.Retry == nil ||
		*d.Retry < 3000 || *d.Retry > 3660 || d.Descriptor != "plan=a/b,user=ann\x1b[2J" {
		t.Errorf("the one before is %+v; want 3 hits denied by 2/hour for about an hour", d)
	}
}

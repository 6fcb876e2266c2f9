package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// enforced are the rules of one weir behind one Envoy, each with users of its own.
var enforced = weirtest.Rule("basic", "unit: hour, requests_per_unit: 3") +
	"    message: Three requests an hour are enough for anyone.\n" +
	weirtest.Rule("trial", "unit: hour, requests_per_unit: 2") + "    shadow_mode: true\n" +
	weirtest.Rule("one", "unit: hour, requests_per_unit: 1") +
	weirtest.Rule("a/b", "unit: hour, requests_per_unit: 2, name: hourly") +
	weirtest.Rule("watched", "unit: hour, requests_per_unit: 0") + "    shadow_mode: true\n" +
	weirtest.Rule("metered", "unit: hour, requests_per_unit: 2500")

func TestARequestThroughEnvoy(t *testing.T) {
	t.Parallel()
	w := weirtest.Serve(t, enforced, "LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_REMAINING_HEADER=X-Left",
		"RETRY_AFTER_HEADER_ENABLED=true", "LIMIT_REQUEST_HEADERS_ENABLED=true", "LIMIT_REQUEST_REMAINING_HEADER=X-Quota-Left")
	e := startEnvoy(t, w)
	for promise, test := range map[string]func(*testing.T, *envoy, *weirtest.Weir){
		"passes under the limit and is refused over it":   testUnderAndOver,
		"passes a rule in shadow mode whatever its limit": testShadow,
		"may give hits back":                              testRefund,
		"has the headers that weir is asked for":          testHeaders,
		"leaves in the access log which rule denied it":   testAccessLog,
		"is charged what was sent when its stream ends":   testUsage,
	} {
		t.Run(promise, func(t *testing.T) { test(t, e, w) })
	}
}

func testUnderAndOver(t *testing.T, e *envoy, _ *weirtest.Weir) {
	for _, remaining := range []string{"2", "1", "0"} {
		e.wants(t, "three an hour pass", "/", "basic", "ann", answer{status: 200, limit: "3, 3;w=3600", remaining: remaining})
	}
	for range 2 {
		e.wants(t, "the fourth and fifth are refused, with the rule's message", "/", "basic", "ann",
			answer{429, "3, 3;w=3600", "0", "Three requests an hour are enough for anyone."})
	}
	e.wants(t, "another user has a limit of his own", "/", "basic", "bob", answer{status: 200, limit: "3, 3;w=3600", remaining: "2"})
}

func testShadow(t *testing.T, e *envoy, _ *weirtest.Weir) {
	for _, remaining := range []string{"1", "0", "0", "0"} {
		e.wants(t, "a shadow rule shows its limit and refuses nothing", "/", "trial", "ann",
			answer{status: 200, limit: "2, 2;w=3600", remaining: remaining})
	}
}

func testRefund(t *testing.T, e *envoy, _ *weirtest.Weir) {
	statuses := func(want ...int) {
		t.Helper()
		var got []int
		for range want {
			a, _ := e.get(t, "/", "basic", "cara")
			got = append(got, a.status)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("requests are answered %v, want %v", got, want)
		}
	}
	statuses(200, 200, 200, 429)
	e.wants(t, "a route that refunds two hits is never refused", "/refund", "basic", "cara",
		answer{status: 200, limit: "3, 3;w=3600", remaining: "2"})
	statuses(200, 200, 429)
}

func testHeaders(t *testing.T, e *envoy, _ *weirtest.Weir) {
	for _, want := range []struct {
		status int
		retry  bool
		told   string // what the service behind Envoy has heard is left
	}{{200, false, "0"}, {429, true, ""}} {
		a, h := e.get(t, "/", "one", "ann")
		if a.status != want.status || h.Get("RateLimit-Limit") != "1" || h.Get("X-Left") != "0" || h.Get("RateLimit-Remaining") != "" {
			t.Errorf("Envoy answered %d with %v; want %d, and the headers under their names", a.status, h, want.status)
		}
		if got := h.Get("X-Told"); got != want.told {
			t.Errorf("%d: the service behind Envoy was told that %q is left, want %q", want.status, got, want.told)
		}
		wantAboutAnHour(t, "RateLimit-Reset", h.Get("RateLimit-Reset"))
		if want.retry {
			wantAboutAnHour(t, "Retry-After", h.Get("Retry-After"))
		} else if h.Get("Retry-After") != "" {
			t.Errorf("Retry-After is %q; want it on a refusal only", h.Get("Retry-After"))
		}
	}
}

func testAccessLog(t *testing.T, e *envoy, _ *weirtest.Weir) {
	for range 3 {
		e.get(t, "/", "a/b", "logged")
	}
	e.get(t, "/", "watched", "logged")
	const passed, denied = "200 logged rule=- limit=- name=- retry_after=- shadow=-", "429 logged rule=plan=a/b/user limit=2/hour name=hourly retry_after="
	weirtest.Eventually(t, "Envoy writes its access log", func() error {
		log, err := os.ReadFile(e.accessLog)
		if err != nil {
			return err
		}
		var lines []string
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, " logged ") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if len(lines) < 4 {
			return fmt.Errorf("it has %d lines", len(lines))
		}
		if lines[0] != passed || lines[1] != passed || !strings.HasPrefix(lines[2], denied) || !strings.HasSuffix(lines[2], " shadow=-") ||
			lines[3] != "200 logged rule=- limit=- name=- retry_after=- shadow=plan=watched/user" {
			t.Errorf("the access log is\n%s\nwant the rules that denied, and that would have", strings.Join(lines, "\n"))
		}
		seconds, _, _ := strings.Cut(strings.TrimPrefix(lines[2], denied), " ")
		wantAboutAnHour(t, "retry_after", seconds)
		return nil
	})
}

// Each response has 1,000 bytes. Envoy charges them after the caller has its answer, and nobody waits for that. The rule
// has no message: Envoy would charge the body of its 429 as well.
func testUsage(t *testing.T, e *envoy, w *weirtest.Weir) {
	c := w.Client(t)
	for _, step := range []struct {
		before string // what the look on the way in sees
		after  uint32 // what is left once the response is charged
	}{
		{"2500", 1500},
		{"1500", 500},
		{"500", 0}, // 3,000 of 2,500: what was sent is charged although it does not fit
	} {
		a, _ := e.get(t, "/usage?bytes=1000", "metered", "ann")
		if a.status != 200 || a.remaining != step.before || len(a.body) != 1000 {
			t.Fatalf("a request with %s bytes left was answered %d with %d bytes and remaining %s: a look must pass and "+
				"count nothing", step.before, a.status, len(a.body), a.remaining)
		}
		weirtest.Eventually(t, "the bytes of a response are charged when its stream ends", func() error {
			status, err := c.Look("metered", "ann")
			if err == nil && status.LimitRemaining != step.after {
				err = fmt.Errorf("%d bytes are left, want %d", status.LimitRemaining, step.after)
			}
			return err
		})
	}
	e.wants(t, "a look at a limit that usage has passed is refused", "/usage?bytes=1000", "metered", "ann",
		answer{status: 429, limit: "2500, 2500;w=3600", remaining: "0"})
	if status, err := c.Refund(600, "metered", "ann"); err != nil || status.LimitRemaining != 100 {
		t.Errorf("after a refund of 600: %v (%v), want 100 left: all 3,000 must have been counted, and nothing for the request "+
			"that was refused", status, err)
	}
	if a, _ := e.get(t, "/usage?bytes=1", "metered", "ann"); a.status != 200 {
		t.Errorf("with 100 bytes left a request was answered %d, want 200", a.status)
	}
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

const refusing = `
- key: plan
  value: a/b
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2, name: hourly }
- key: plan
  value: watched
  descriptors:
  - key: user
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 0 }
`

// ask reads a path of the admin port.
func (w *weir) ask(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := patient.Get(w.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// command runs weir's binary and returns what it printed and its exit code.
func (w *weir) command(t *testing.T, args ...string) (string, int) {
	t.Helper()
	args = append(args, "--admin", strings.TrimPrefix(w.admin, "http://"), "--timeout", "1m")
	p := process.Start(t, fmt.Sprint("weir ", args), nil, weirBinary, args...)
	code := p.ExitCode(t)
	return p.Log.String(), code
}

// hits sends hits that are answered, whatever the verdict.
func (c *client) hits(t *testing.T, n int, plan, user string) {
	t.Helper()
	for range n {
		if _, err := c.hit(plan, user); err != nil {
			t.Fatalf("asking weir: %v", err)
		}
	}
}

func TestWhyARequestWasDeniedIsLoggedServedAndPrinted(t *testing.T) {
	t.Parallel()
	for store, settings := range map[string][]string{"memory": nil, "redis": {"REDIS_URL=" + redistest.Single(t).Addr}} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := startWeir(t, refusing, settings...)
			c := w.client(t)
			eventually(t, "it counts", func() error { _, err := c.look("a/b", "ann"); return err })
			if printed, code := w.command(t, "denials"); code != 0 || !strings.Contains(printed, "Nothing was denied since this weir started") {
				t.Errorf("before any denial, weir denials ends with %d and prints %s", code, printed)
			}
			c.hits(t, 5, "a/b", "ann\x1b[2J")
			c.hits(t, 1, "watched", "eve")

			var a struct {
				Denials []struct {
					Domain, Path, Limit, Name, Descriptor string
					Retry                                 *int64 `json:"retry_seconds"`
					Hits                                  int    `json:"denied_hits"`
					Shadow                                bool
				}
			}
			if _, body := w.ask(t, "/api/v1/denials?values=true"); json.Unmarshal([]byte(body), &a) != nil || len(a.Denials) != 2 {
				t.Fatalf("the port answers %s; want both rules", body)
			}
			if d := a.Denials[0]; !d.Shadow || d.Path != "plan=watched/user" || d.Descriptor != "plan=watched,user=eve" || d.Retry != nil {
				t.Errorf("the newest is %+v; want what shadow mode let through, which never passes", d)
			}
			if d := a.Denials[1]; d.Path != "plan=a%2Fb/user" || d.Limit != "2/hour" || d.Name != "hourly" || d.Hits != 3 || d.Retry == nil ||
				*d.Retry < hourFrom-600 || *d.Retry > hourTo || d.Descriptor != "plan=a/b,user=ann\x1b[2J" {
				t.Errorf("the one before is %+v; want 3 hits denied by 2/hour for about an hour", d)
			}
			printed, code := w.command(t, "denials", "--domain", "shop", "--path", "plan=a/b/user")
			if code != 0 || !strings.Contains(printed, "plan=a/b/user  2/hour hourly  3") || strings.Contains(printed, "ann") {
				t.Errorf("weir denials ends with %d and prints\n%s\nwant the rule, its limit and 3 denials, and no value", code, printed)
			}
			if printed, _ := w.command(t, "denials", "--values"); !strings.Contains(printed, "plan=a/b,user=ann\uFFFD[2J\n") {
				t.Errorf("with --values it prints\n%s\nwant the descriptor, with nothing that a terminal obeys", printed)
			}
			if printed, code := w.command(t, "denials", "--domain", "shpo"); code != 2 || !strings.Contains(printed, "No file configures domain shpo") {
				t.Errorf("of a domain that is mistyped it ends with %d and prints %s", code, printed)
			}
			eventually(t, "the denials are logged", func() error {
				for _, want := range []string{`msg="requests are denied: a limit is reached" domain=shop rule="plan=a/b/user" limit=2/hour name=hourly`,
					`msg="requests would be denied, were it not for shadow mode: a limit is reached" domain=shop rule="plan=watched/user"`} {
					if log := w.Log.String(); strings.Count(log, want) != 1 || strings.Contains(log, "ann") {
						return fmt.Errorf("the log has not once, or not without values:\n%s", want)
					}
				}
				return nil
			})
		})
	}
}

func TestEnvoysAccessLogSaysWhichRuleDenied(t *testing.T) {
	t.Parallel()
	e := startEnvoy(t, startWeir(t, refusing), failOpen)
	for range 3 {
		e.get(t, "/", "", "a/b", "ann")
	}
	if a := e.get(t, "/", "", "watched", "eve"); a.status != 200 {
		t.Errorf("a rule in shadow mode refused a request with %d", a.status)
	}
	eventually(t, "Envoy writes its access log", func() error {
		log, err := os.ReadFile(e.accessLog)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		if len(lines) < 4 {
			return fmt.Errorf("it has %d lines", len(lines))
		}
		const passed, denied = "200 ann rule=- limit=- name=- retry_after=- shadow=-", "429 ann rule=plan=a/b/user limit=2/hour name=hourly retry_after="
		if lines[0] != passed || lines[1] != passed || !strings.HasPrefix(lines[2], denied) || !strings.HasSuffix(lines[2], " shadow=-") {
			t.Errorf("the access log is\n%s\nwant\n%s\n%s\n%s… shadow=-", log, passed, passed, denied)
		}
		var seconds int
		if _, err := fmt.Sscanf(strings.TrimPrefix(lines[2], denied), "%d ", &seconds); err != nil || seconds < hourFrom-600 || seconds > hourTo {
			t.Errorf("%s\nwant the whole seconds of about an hour", lines[2])
		}
		if want := "200 eve rule=- limit=- name=- retry_after=- shadow=plan=watched/user"; lines[3] != want {
			t.Errorf("the access log has\n%s\nwant\n%s", lines[3], want)
		}
		return nil
	})
}

func TestAtLevelDebugEachRequestIsALine(t *testing.T) {
	t.Parallel()
	w := startWeir(t, refusing, "LOG_LEVEL=debug", "LOG_FORMAT=json", "DENIAL_LOG_INTERVAL=0")
	w.client(t).hits(t, 3, "a/b", "ann\n\x1b")
	eventually(t, "each request is logged", func() error {
		var ways []string
		for line := range strings.Lines(w.Log.String()) {
			var l struct{ Level, Msg, Domain, Answer, Way string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				return fmt.Errorf("a line is not JSON: %w: %s", err, line)
			}
			if l.Msg == "request" && l.Domain == "shop" && l.Level == "DEBUG" {
				ways = append(ways, l.Answer+": "+l.Way)
			}
			if strings.HasPrefix(l.Msg, "requests are denied") {
				t.Errorf("DENIAL_LOG_INTERVAL is 0, and denials are logged: %s", line)
			}
		}
		if len(ways) != 3 {
			return fmt.Errorf("there are %d of 3", len(ways))
		}
		const begin, found = "plan=a/b,user=ann\n\x1b -> rule plan=a/b/user (", "shop.yaml:7), key 4:shop4:plan3:a/b4:user5:ann\n\x1b, hits 1: "
		for i, want := range []string{"ok: ", "ok: ", "over_limit: "} {
			if !strings.HasPrefix(ways[i], want+begin) || !strings.Contains(ways[i], found) || !strings.Contains(ways[i], "2/hour, remaining ") {
				t.Errorf("the way is\n%q\nwant\n%q…%q", ways[i], want+begin, found)
			}
		}
		return nil
	})
}

// Whoever replaces envoyproxy/ratelimit gets its answers and a log as quiet, until he asks for more.
func TestStartedAsRatelimitDenialsAreToldOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{"unasked": nil, "asked": {"DENIAL_LOG_INTERVAL=1m", "DENIAL_METADATA=true", "LOG_LEVEL=info"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := settings != nil
			w := startRatelimit(t, []string{linked(t, "ratelimit")}, append([]string{"BACKEND_TYPE=memory", "ALGORITHM=sliding_window",
				"DRAIN_DELAY=2s"}, settings...)...)
			e := startEnvoy(t, w, failOpen)
			for range 4 {
				e.get(t, "/", "", "basic", "ann")
			}
			if _, body := w.ask(t, "/api/v1/denials"); !strings.Contains(body, `"path":"plan=basic/user"`) {
				t.Errorf("its admin port knows of no denial: %s", body)
			}
			eventually(t, "Envoy writes its access log", func() error {
				log, _ := os.ReadFile(e.accessLog)
				lines := strings.Split(strings.TrimSpace(string(log)), "\n")
				if len(lines) < 4 {
					return fmt.Errorf("it has %d lines", len(lines))
				}
				if !strings.HasPrefix(lines[3], "429 ") || strings.Contains(lines[3], "rule=plan=basic/user limit=3/hour") != asked {
					t.Errorf("the access log says %s; that the rule is in it should be %t", lines[3], asked)
				}
				return nil
			})
			if asked {
				eventually(t, "the denial is logged", func() error {
					if log := w.Log.String(); !strings.Contains(log, "requests are denied: a limit is reached") {
						return fmt.Errorf("the log is %s", log)
					}
					return nil
				})
				return
			}
			w.Terminate(t) // the log looks each second, and the drain takes longer
			w.ExitCode(t)
			if log := w.Log.String(); strings.Contains(log, "denied") {
				t.Errorf("it tells of denials that nobody asked for:\n%s", log)
			}
		})
	}
}

package admin

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/history"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/denials"
	"github.com/weirproxy/weir/server/promql"
	"github.com/weirproxy/weir/server/promql/engine"
)

const writer, readers = "a token that may write", "a token that may read"

// personalPort is a port whose every part knows what user ann did.
func personalPort(t *testing.T, g *Access) http.Handler {
	t.Helper()
	config := fixture.Config(t, shop)
	k := newKept(t, time.Now())
	k.add(t, hit{history.ID{Domain: "shop", Path: "user", Value: "ann"}, k.now.Unix(), 7})
	recorder := denials.New()
	rule := config.Match("shop", descriptors.Descriptor{{Key: "user", Value: "ann"}}).Rule
	recorder.Table(config).Record(config.RuleIndex("shop", rule), false, &denials.Denial{At: time.Now(), Limit: rule.Limits[0], Hits: 1},
		descriptors.Descriptor{{Key: "user", Value: "ann"}})
	p := newPort(t, g)
	p.hit(t, "user", 3)
	return serving(Parts{Access: g, Counters: p.counters, History: k.History,
		Denials: &Denials{Recorder: recorder, Rules: inForce{config}, Since: time.Now(), Now: time.Now},
		Query: promql.NewHandler(promql.Config{Config: engine.Config{Store: k.store, Rules: config.Rules, Now: time.Now, MaxSamples: 100_000, Timeout: time.Minute,
			Log: slog.New(slog.DiscardHandler)}}),
	})
}

func TestValuesNeedTheReadToken(t *testing.T) {
	dir := t.TempDir()
	write, read := filepath.Join(dir, "write"), filepath.Join(dir, "read")
	writeToken(t, write, writer)
	writeToken(t, read, readers)
	both := func() *Access {
		return &Access{TokenFile: write, ReadFile: read, Hosts: []string{"weir.shop"}}
	}
	const search = "denials?descriptor=user%3Dann" // is answered without the value, and tells that it was there
	for _, c := range []struct {
		promise, remote, host, token string
		guard                        *Access
		reads                        bool
		says                         string
	}{
		{"this host, where there is no token", "127.0.0.1:9", "127.0.0.1:6070", "", &Access{}, true, ""},
		{"another host, where there is no token", "10.0.0.9:9", "localhost:6070", "", &Access{}, false, "weir's own host"},
		{"this host by a listed name, where there is no token", "127.0.0.1:9", "WEIR.shop", "", &Access{Hosts: []string{"weir.shop"}}, false, "weir's own host"},
		{"the reading token", "10.0.0.9:9", "weir.shop", readers, both(), true, ""},
		{"the writing token", "10.0.0.9:9", "weir.shop", writer, both(), true, ""},
		{"this host, where only changes need a token", "127.0.0.1:9", "127.0.0.1:6070", "", &Access{TokenFile: write}, true, ""},
		{"a mesh's proxy on this host", "127.0.0.6:9", "127.0.0.1:6070", "", &Access{TokenFile: write}, false, "ADMIN_READ_TOKEN_FILE"},
		{"this host without the reading token", "127.0.0.1:9", "127.0.0.1:6070", "", both(), false, "ADMIN_READ_TOKEN_FILE"},
		{"a wrong token", "127.0.0.1:9", "127.0.0.1:6070", "a token that may not", both(), false, "ADMIN_READ_TOKEN_FILE"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			h := personalPort(t, c.guard)
			for path, code := range map[string]int{"denials?values=true": 403, search: 403, "counters/top": 403, "history": 200,
				"history?value=ann": 200, "history/top": 200, "history/export?format=csv": 200, "../../prometheus/api/v1/query?query=weir_hits_total": 200,
				"../../prometheus/api/v1/label/value/values": 200, "denials": 200} {
				w := send(h, "GET", "/", func(r *http.Request) {
					r.URL, _ = r.URL.Parse("/api/v1/" + path)
					if r.RemoteAddr, r.Host = c.remote, c.host; c.token != "" {
						bearer(c.token)(r)
					}
				})
				body := w.Body.String()
				asked := strings.Contains(path, "value=ann") && !c.reads // what is not found is repeated
				if strings.Contains(body, "ann") != (c.reads && path != "denials" && path != search) && !asked || c.reads && w.Code != 200 {
					t.Errorf("%s gave %d %s; the value in it: want %v", path, w.Code, body, c.reads)
				}
				if asked && strings.Contains(body, `"sum"`) {
					t.Errorf("%s tells whoever guesses a value that it is there: %s", path, body)
				}
				if !c.reads && (w.Code != code || code == 403 && !strings.Contains(body, c.says)) {
					t.Errorf("%s gave %d %s, want %d with %q", path, w.Code, body, code, c.says)
				}
			}
			if c.token == "a token that may not" != (c.guard.Refused() > 0) {
				t.Errorf("%d tokens were counted as refused", c.guard.Refused())
			}
		})
	}
}

// Somebody without the right follows a value by its hash.
func TestHiddenValueIsFoundByItsHash(t *testing.T) {
	h := personalPort(t, &Access{})
	ask := func(path string) string {
		return send(h, "GET", path, func(r *http.Request) { r.RemoteAddr = "10.0.0.9:9" }).Body.String()
	}
	_, hash, _ := strings.Cut(ask("/prometheus/api/v1/label/value/values"), `["`)
	hash, _, _ = strings.Cut(hash, `"`)
	if body := ask("/api/v1/history/export"); strings.Contains(body, "hidden-") {
		t.Errorf("an export has hashes, which mean nothing once weir has ended: %s", body)
	}
	if body := ask("/prometheus/api/v1/query?query=sum+by+(value)(weir_hits_total)"); !strings.Contains(body, "ADMIN_READ_TOKEN_FILE") {
		t.Errorf("PromQL says nothing of hashes for values: %s", body)
	}
	for _, path := range []string{"/prometheus/api/v1/query?query=weir_hits_total%7Bvalue=%22" + hash + "%22%7D", "/api/v1/history?value=" + hash} {
		if body := ask(path); !strings.HasPrefix(hash, "hidden-") || !strings.Contains(body, `"`+hash+`"`) {
			t.Errorf("%s is answered %s; want what belongs to %q", path, body, hash)
		}
	}
}

func TestPortAnswersOnlyToItsNames(t *testing.T) {
	for _, c := range []struct {
		host, path string
		guard      *Access
		code       int
	}{
		{"localhost", "/help", &Access{}, 200},
		{"[::1]:6070", "/help", &Access{}, 200},
		{"10.0.0.7:6070", "/help", &Access{}, 200}, // where it listens
		{"10.0.0.8:6070", "/help", &Access{}, 421},
		{"evil.test:6070", "/help", &Access{}, 421},
		{"", "/help", &Access{}, 421},
		{"evil.test", "/", &Access{}, 421},
		{"evil.test", "/api/v1/history", &Access{}, 421},
		{"evil.test", "/livez", &Access{}, 200},
		{"evil.test", "/readyz", &Access{}, 200},
		{"evil.test", "/metrics", &Access{}, 404}, // the mux of the test has none
		{"Weir.Shop:6070", "/help", &Access{Hosts: []string{"weir.shop"}}, 200},
		{"evil.test", "/help", &Access{Hosts: []string{"*"}}, 200},
		{"evil.test", "/nothing", &Access{}, 421}, // where ratelimit has its list
	} {
		local := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 6070}
		w := send(serving(Parts{Access: c.guard}), "GET", c.path, func(r *http.Request) {
			r.Host = c.host
			*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
		})
		if c.path == "/nothing" {
			probe := send(serving(Parts{Access: c.guard, LikeRatelimit: true}), "GET", c.path, func(r *http.Request) { r.Host = c.host })
			if probe.Code != 200 {
				t.Errorf("as ratelimit, %s of %q gave %d, want 200: probes ask for any host", c.path, c.host, probe.Code)
			}
		}
		if w.Code != c.code || c.code == 421 && !strings.Contains(w.Body.String(), "ADMIN_HOSTS") {
			t.Errorf("%s of %q gave %d %s, want %d", c.path, c.host, w.Code, w.Body, c.code)
		}
	}
}

func TestRefusedTokenLogsAreSampled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, writer)
	var logged bytes.Buffer
	g := &Access{TokenFile: file, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	p := newPort(t, g)
	for range 5 {
		p.ask("DELETE", "/api/v1/counters"+ann, bearer("a wrong and secret one"))
	}
	g.ReadFile = "/away" // so that this one may be right
	p.ask("GET", "/api/v1/counters/top", bearer("a reader's secret token"))
	if g.Refused() != 5 || strings.Count(logged.String(), "client=127.0.0.1:1234") != 1 || strings.Contains(logged.String(), "secret") {
		t.Errorf("%d were counted, and logged is\n%s\nwant 5, and one line, without the token", g.Refused(), &logged)
	}
}

package admin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/descriptors/yaml"
	"github.com/weirproxy/weir/server/hits"
)

const shop = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 10, unit: minute}
      - {requests_per_unit: 500, unit: hour}
  - {key: friend, rate_limit: {unlimited: true}}
  - {key: payer, rate_limit: {requests_per_unit: 3, unit: minute, algorithm: sliding_log}}
  - {key: guest, rate_limit: {requests_per_unit: 10, unit: minute, algorithm: token_bucket, burst: 5}}
`

var noon = time.Date(2026, 11, 21, 12, 0, 33, 0, time.UTC)

// port is an admin port over a memory store whose clock stands at noon, and what it logged.
type port struct {
	http.Handler
	counters *Counters
	table    *hits.Table
	logged   bytes.Buffer
}

func newPort(t *testing.T, g *Access) *port {
	t.Helper()
	config := fixture.Config(t, shop)
	store := fixture.Memory(t, func() time.Time { return noon })
	p := &port{}
	recorder := hits.New(0)
	p.table = recorder.Table(config)
	p.counters = &Counters{Rules: inForce{config}, Counter: store, Store: store, Recorder: recorder, LogValues: true,
		Now: func() time.Time { return noon },
		Log: slog.New(slog.NewTextHandler(&p.logged, nil))}
	p.Handler = serving(Parts{Counters: p.counters, Access: g})
	return p
}

// serving returns a port of some parts, which is ready.
func serving(p Parts) http.Handler {
	p.Ready, p.Metrics, p.Access = func() error { return nil }, cmp.Or(p.Metrics, http.NotFoundHandler()), cmp.Or(p.Access, &Access{})
	if p.Loaded == nil {
		p.Loaded = loadedAt(0)
	}
	return Handler(p)
}

// fromHere is a request of this host's to a loopback address.
func fromHere(method, target string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, target, nil)
	r.Host, r.RemoteAddr = "localhost:6070", "127.0.0.1:1234"
	for _, f := range change {
		f(r)
	}
	return r
}

// send sends such a request to a port.
func send(h http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, fromHere(method, target, change...))
	return w
}

// get asks a port.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	return send(h, http.MethodGet, path)
}

// hit counts hits of ann by a key.
func (p *port) hit(t *testing.T, key string, n uint64) {
	t.Helper()
	d := descriptors.Descriptor{{Key: key, Value: "ann"}}
	m := p.counters.Rules.Config().Match("shop", d)
	checks, out := []backend.Check{{Key: m.AppendKey(nil, "shop", d), Limits: m.Rule.Limits, Hits: n}}, make([]backend.Decision, 1)
	if err := p.counters.Counter.Decide(t.Context(), checks, out); err != nil {
		t.Fatal(err)
	}
	p.table.Counter(m.Rule, "shop").Record(&hits.Event{Rule: m.Rule, Descriptor: d, Key: p.counters.Recorder.Key(checks[0].Key), At: noon,
		Check: &checks[0], Decision: &out[0]}, hits.Modes{NearRatio: 0.8})
}

// ask returns the status and the body of what is answered.
func (p *port) ask(method, target string, change ...func(*http.Request)) (int, string) {
	w := send(p, method, target, change...)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// writeToken writes a token into a file, with a line's end as people do.
func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

const ann = "?domain=shop&descriptor=user=ann"

func TestCountersShowTheirAlgorithmsState(t *testing.T) {
	p := newPort(t, &Access{})
	for key, want := range map[string]string{
		"user": `,"path":"user","key":"4:shop4:user3:ann","limits":[` +
			`{"limit":"10/minute","algorithm":"sliding_window","hits":2,"remaining":8,"reset_seconds":61,"levels":[` +
			`{"width":"1s","buckets":[{"start":1795262433,"hits":2}]},{"width":"1m","buckets":[{"start":1795262400,"hits":2}]}]},` +
			`{"limit":"500/hour","algorithm":"sliding_window","hits":2,"remaining":498,"reset_seconds":3627,"levels":[` +
			`{"width":"1m","buckets":[{"start":1795262400,"hits":2}]},{"width":"1h","buckets":[{"start":1795262400,"hits":2}]}]}]}`,
		"payer": `,"path":"payer","key":"4:shop5:payer3:ann","limits":[{"limit":"3/minute","algorithm":"sliding_log","hits":2,"remaining":1,` +
			`"reset_seconds":60,"levels":[]}]}`,
		"guest": `,"path":"guest","key":"4:shop5:guest3:ann","limits":[{"limit":"10/minute","algorithm":"token_bucket","burst":5,"hits":2,` +
			`"remaining":3,"reset_seconds":6,"levels":[]}]}`,
	} {
		p.hit(t, key, 2)
		want = `{"domain":"shop","descriptor":"` + key + `=ann"` + want
		if code, body := p.ask("GET", "/api/v1/counters?domain=shop&descriptor="+key+"=ann"); code != 200 || body != want {
			t.Errorf("got %d\n%s\nwant\n%s\nScripts read this form.", code, body, want)
		}
	}
	if _, body := p.ask("GET", "/api/v1/counters?domain=shop&descriptor=user=bob"); strings.Contains(body, "null") {
		t.Errorf("a key without hits is shown with null where scripts expect a list: %s", body)
	}
}

func TestWritesNeedLoopbackOrToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	writeToken(t, file, "a secret of weir")
	withFile := &Access{TokenFile: file, Host: "127.0.0.1"}
	web := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	rebound := func(r *http.Request) { r.Host = "evil.example:6070" }
	basic := func(r *http.Request) { r.Header.Set("Authorization", "Basic a secret of weir") }
	none := func(*http.Request) {}
	for _, c := range []struct {
		promise string
		guard   *Access
		change  func(*http.Request)
		code    int
		want    string
	}{
		{"all addresses, no token", &Access{Host: "0.0.0.0"}, none, 403, writesNeedToken},
		{"no address is all addresses", &Access{}, none, 403, writesNeedToken},
		{"a token does not help where none is expected", &Access{Host: "10.0.0.7"}, bearer("a secret of weir"), 403, writesNeedToken},
		{"a loopback address", &Access{Host: "127.0.0.1"}, none, 200, ""},
		{"a loopback address in brackets", &Access{Host: "[::1]"}, none, 200, ""},
		{"localhost", &Access{Host: "localhost"}, none, 200, ""},
		{"a web page on a loopback address", &Access{Host: "127.0.0.1"}, web, 403, "web pages"},
		{"a name that was pointed to a loopback address", &Access{Host: "127.0.0.1"}, rebound, 421, "evil.example"},
		{"the token", withFile, bearer("a secret of weir"), 200, ""},
		{"another token", withFile, bearer("A secret of weir"), 403, wrongToken},
		{"an empty token", withFile, bearer(""), 403, wrongToken},
		{"no token, though on a loopback address", withFile, none, 403, wrongToken},
		{"the token under another scheme", withFile, basic, 403, wrongToken},
		{"a file that is gone", &Access{TokenFile: file + "x"}, bearer(""), 403, "no such file"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			p := newPort(t, c.guard)
			for method, path := range map[string]string{"DELETE": "", "POST": "/grant"} {
				code, body := p.ask(method, "/api/v1/counters"+path+ann, c.change)
				if code != c.code || !strings.Contains(body, c.want) {
					t.Errorf("%s gave %d %q, want %d with %q", method, code, body, c.code, c.want)
				}
			}
			if p.logged.Len() > 0 != (c.code == 200) {
				t.Errorf("logged: %s; every write must leave a trace, and only those", &p.logged)
			}
			if code, _ := p.ask("GET", "/api/v1/counters"+ann); code != 200 {
				t.Errorf("a look gave %d; it needs no token", code)
			}
		})
	}
	t.Run("a token that has changed", func(t *testing.T) {
		p := newPort(t, withFile)
		for _, token := range []string{"the second secret", "the third secret!"} {
			writeToken(t, file, token)
			if code, body := p.ask("DELETE", "/api/v1/counters"+ann, bearer(token)); code != 200 {
				t.Errorf("the new token gave %d %s; a rotation must not need a restart", code, body)
			}
		}
		if code, _ := p.ask("DELETE", "/api/v1/counters"+ann, bearer("the second secret")); code != 403 {
			t.Errorf("the old token gave %d, want 403", code)
		}
		writeToken(t, file, " only 15 bytes.")
		if code, body := p.ask("DELETE", "/api/v1/counters"+ann, bearer("only 15 bytes.")); code != 403 || withFile.Check() == nil {
			t.Errorf("a file with a short token gave %d %s: it must let nobody write", code, body)
		}
	})
}

// What was given back is told to the hit, for each limit, and of a reset what was forgotten; and the log has who did it.
func TestChangesReportTheirEffect(t *testing.T) {
	const grant, reset = "POST /grant", "DELETE "
	for _, c := range []struct {
		key, do       string
		counted, hits uint64
		asked         uint64 // 0 of a reset, and for one that is not said
		want          string
	}{
		{"user", grant, 7, 0, 50, `"asked":50,"hits_before":7,"given_back":7}`},
		{"user", grant, 7, 4, 3, `"asked":3,"hits_before":7,"given_back":3}`},
		{"user", grant, 7, 6, 0, `"asked":1,"hits_before":7,"given_back":1}`},
		{"user", grant, 7, 0, maxGrant, `"asked":9007199254740991,"hits_before":7,"given_back":7}`},
		{"payer", grant, 3, 2, 1, `"asked":1,"hits_before":3,"given_back":1}`},
		{"guest", grant, 4, 0, 5, `"asked":5,"hits_before":4,"given_back":4}`},
		{"user", grant, 0, 0, 5, `"asked":5,"hits_before":0,"given_back":0}`},
		{"user", reset, 7, 0, 0, `"hits_before":7,"given_back":7}`},
		{"user", reset, 0, 0, 0, `"hits_before":0,"given_back":0}`},
	} {
		p := newPort(t, &Access{Host: "127.0.0.1"})
		if c.counted > 0 {
			p.hit(t, c.key, c.counted)
		}
		method, path, _ := strings.Cut(c.do, " ")
		target := "/api/v1/counters" + path + "?domain=shop&descriptor=" + c.key + "=ann"
		if c.asked > 0 {
			target += "&hits=" + strconv.FormatUint(c.asked, 10)
		}
		code, body := p.ask(method, target)
		each := fmt.Sprintf(`"hits_before":%d,"hits":%d,`, c.counted, c.hits)
		if code != 200 || !strings.HasSuffix(body, c.want) || strings.Count(body, each) != strings.Count(body, `"limit":`) {
			t.Errorf("%s %s where %d are counted gave %d %s, want %s and for each limit %s", method, target, c.counted, code, body, c.want, each)
		}
		logged := "counters changed who=127.0.0.1:1234 what=reset domain=shop path=user descriptor=user=ann"
		if c.do == grant {
			logged = fmt.Sprintf("counters changed who=127.0.0.1:1234 what=grant domain=shop path=%[1]s descriptor=%[1]s=ann hits=%d", c.key, max(1, c.asked))
		}
		if log := strings.ReplaceAll(p.logged.String(), `"`, ""); !strings.Contains(log, logged) {
			t.Errorf("%s %s is logged as %s, want %s", method, target, log, logged)
		}
	}
}

func TestValuesAreLoggedOnlyOnRequest(t *testing.T) {
	p := newPort(t, &Access{Host: "127.0.0.1"})
	p.counters.LogValues = false
	p.hit(t, "user", 2)
	if code, body := p.ask("DELETE", "/api/v1/counters"+ann); code != 200 || !strings.Contains(body, `"hits":0`) {
		t.Errorf("a reset gave %d %s", code, body)
	}
	if strings.Contains(p.logged.String(), "ann") || !strings.Contains(p.logged.String(), "path=user") {
		t.Errorf("without LogValues a reset is logged as %s; want the rule, and no value", &p.logged)
	}
}

// raced lets others count between the look at a key and the change of it.
type raced struct {
	backend.Inspector
	others func()
}

func (r raced) Inspect(ctx context.Context, key []byte, limits []descriptors.Limit) ([]backend.LimitCount, error) {
	counts, err := r.Inspector.Inspect(ctx, key, limits)
	r.others()
	return counts, err
}

func TestGrantReportsConcurrentHits(t *testing.T) {
	p := newPort(t, &Access{Host: "127.0.0.1"})
	p.hit(t, "guest", 1)
	once := sync.OnceFunc(func() { p.hit(t, "guest", 2) })
	p.counters.Store = raced{p.counters.Store, once}
	if _, body := p.ask("POST", "/api/v1/counters/grant?domain=shop&descriptor=guest=ann&hits=9"); !strings.HasSuffix(body, `"hits_before":3,"given_back":3}`) {
		t.Errorf("1 hit was seen and 3 were given back, but the answer is %s", body)
	}
}

// People compare it with what they see in Redis.
func TestRatelimitKeysAreShownByPrefix(t *testing.T) {
	p := newPort(t, &Access{})
	p.counters.Rules = inForce{fixture.ConfigWith(t, yaml.Options{Algorithm: descriptors.FixedWindow, Keys: descriptors.Keys{Format: descriptors.KeysOfRatelimit}},
		"domain: shop\ndescriptors:\n- {key: user, rate_limit: {requests_per_unit: 10, unit: minute}}\n")}
	if _, body := p.ask("GET", "/api/v1/counters"+ann); !strings.Contains(body, `"key":"shop_user_ann_"`) {
		t.Errorf("the answer is %s; want the key shop_user_ann_", body)
	}
}

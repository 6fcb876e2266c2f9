package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/denials"
)

const deniedShop = `domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 1000, unit: hour, name: users}
    descriptors: [{key: path, value: /pay, rate_limit: {requests_per_unit: 5, unit: minute}}]
  - {key: bytes, shadow_mode: true, rate_limit: {requests_per_unit: 4096, unit: second}}
`

// deniedWorld has a configuration in force, and an admin port with its denials. It is noon.
type deniedWorld struct {
	config *descriptors.Config
	table  *denials.Table

	recorder *denials.Recorder
	port     *httptest.Server
}

var denialNoon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newDeniedWorld(t *testing.T) *deniedWorld {
	t.Helper()
	config, recorder := fixture.Config(t, deniedShop), denials.New()
	w := &deniedWorld{config: config, table: recorder.Table(config), recorder: recorder}
	w.port = httptest.NewServer(admin.Handler(admin.Parts{
		Ready: server.NewHealth(server.HealthRules{}).Ready, Metrics: http.NotFoundHandler(),
		Denials: &admin.Denials{Recorder: recorder, Rules: inForce{config}, Since: denialNoon.Add(-47 * time.Minute),
			Now: func() time.Time { return denialNoon }}, Access: &admin.Access{},
	}))
	t.Cleanup(w.port.Close)
	return w
}

type inForce struct{ config *descriptors.Config }

func (f inForce) Config() *descriptors.Config { return f.config }

func (w *deniedWorld) deny(ago, retry time.Duration, hits uint64, shadow bool, by backend.Source, d ...descriptors.Entry) {
	rule := w.config.Match("shop", d).Rule
	w.table.Record(w.config.RuleIndex("shop", rule), shadow, &denials.Denial{At: denialNoon.Add(-ago), Limit: rule.Limits[0], Hits: hits, RetryIn: retry, Source: by}, d)
}

// run runs weir denials against the port, and returns the output.
func (w *deniedWorld) run(t *testing.T, c denialsCommand) string {
	t.Helper()
	c.Port, c.N = flagsFor(w.port).Port, max(c.N, 1)
	var out bytes.Buffer
	if err := c.Run(t.Context(), utc(&out)); err != nil {
		return "error: " + err.Error()
	}
	return out.String()
}

func TestDenialsPrintsATable(t *testing.T) {
	w := newDeniedWorld(t)
	user, pay := descriptors.Entry{Key: "user", Value: "ann\x1b[2J"}, descriptors.Entry{Key: "path", Value: "/pay"}
	for range 1234 {
		w.deny(12*time.Second, 68*time.Second, 1, false, backend.FromDenyCache, user, pay)
	}
	w.deny(90*time.Second, time.Second, 1, false, backend.FromPolicy, user)
	w.deny(5*time.Minute, backend.Never, 8192, true, backend.FromStore, descriptors.Entry{Key: "bytes", Value: "a,b"})
	const want = `when        domain  rule            limit            over                still
12s ago     shop    user/path=/pay  5/minute         1,234               56s
1m 30s ago  shop    user            1000/hour users  1                   -       store away: decided by the failure policy
5m ago      shop    bytes           4096/second      8,192 in 1 request  always  passed: shadow mode, 8192 hits at once
Counted since 2026-11-22 11:13:00; each replica keeps its own.
`
	if got := w.run(t, denialsCommand{N: 20}); got != want {
		t.Errorf("printed is\n%s\nwant\n%s", got, want)
	}
	const one = `when     domain  rule            limit     over   still
12s ago  shop    user/path=/pay  5/minute  1,234  56s
    user=ann` + "\uFFFD" + `[2J,path=/pay
Counted since 2026-11-22 11:13:00; each replica keeps its own.
`
	if got := w.run(t, denialsCommand{Path: "user/path=/pay", Values: true}); got != one {
		t.Errorf("printed is\n%s\nwant\n%s", got, one)
	}
	if got := w.run(t, denialsCommand{N: 1}); !strings.Contains(got, "… and 2 rules more (-n lists them)\n") {
		t.Errorf("of three rules one is printed, and nothing says that there are more:\n%s", got)
	}
	if got := w.run(t, denialsCommand{portFlags: portFlags{JSON: true}, N: 20}); !strings.HasPrefix(got, `{"since":`) || strings.Contains(got, "ann") {
		t.Errorf("--json prints %s; want what the port answers, without values", got)
	}
}

func TestDenialsPrintsTimeAndDecider(t *testing.T) {
	w := newDeniedWorld(t)
	user, pay := descriptors.Entry{Key: "user", Value: "ann\x1b[2J"}, descriptors.Entry{Key: "path", Value: "/pay"}
	w.deny(20*time.Minute, time.Second, 1, false, backend.FromPolicy, user)
	w.deny(10*time.Minute, time.Second, 1, false, backend.FromStore, user, pay)
	for i := range 30 {
		w.deny(10*time.Minute-time.Duration(i)*time.Second, time.Second, 1, false, backend.FromDenyCache, user, pay)
	}
	w.deny(5*time.Minute, backend.Never, 8192, true, backend.FromStore, descriptors.Entry{Key: "bytes", Value: "a,b"})
	for i := range 5 {
		w.deny(30*time.Minute-time.Duration(i%2)*30*time.Second, time.Second, 1, false, backend.FromStore,
			descriptors.Entry{Key: "user", Value: []string{"bob", "eve", "joe"}[i/2]})
	}
	ann := descriptors.Descriptor{user}.String()
	for _, c := range []struct {
		promise string
		asked   denialsCommand
		want    string
	}{
		{"all of a descriptor, with what it has besides", denialsCommand{Descriptor: &ann, N: 20}, `when                             domain  rule            limit            over  decided by
2026-11-22 11:50:00 to 11:50:29  shop    user/path=/pay  5/minute         31    the deny cache: the store had just denied the key
2026-11-22 11:40:00              shop    user            1000/hour users  1     nobody's count                                     store away: decided by the failure policy
All are kept since 2026-11-22 11:13:00; each replica keeps its own.
`},
		{"a time in another zone", denialsCommand{From: "2026-11-22 12:55", TZ: "Europe/Berlin", Values: true, N: 20}, `when                 domain  rule   limit        over                decided by
2026-11-22 12:55:00  shop    bytes  4096/second  8,192 in 1 request  the store's count  passed: shadow mode, 8192 hits at once
    bytes=a\,b
All are kept since 2026-11-22 12:13:00; each replica keeps its own.
`},
		{"several descriptors, which are not shown", denialsCommand{From: "2026-11-22T11:30:00", To: "2026-11-22T11:31:00", N: 20}, `when                             domain  rule  limit            over  decided by
2026-11-22 11:30:00 to 11:30:30  shop    user  1000/hour users  5     the store's count  of 3 descriptors: --values tells them apart
All are kept since`},
		{"several descriptors, which are", denialsCommand{From: "2026-11-22T11:30:00", To: "2026-11-22T11:31:00", N: 20, Values: true}, "\n    user=bob\n"},
		{"more than was asked for", denialsCommand{Descriptor: &ann, N: 1}, "… and 1 line more (-n lists them)\nAll are kept since 2026-11-22 11:13:00; "},
		{"nothing, in a time of which all is kept", denialsCommand{Descriptor: &ann, From: "2026-11-22T11:41:00", To: "2026-11-22T11:42:00"},
			"Nothing like that was denied here from 2026-11-22 11:41:00 to 2026-11-22 11:42:00. Each replica"},
		{"nothing, in a time of which not all is kept", denialsCommand{Descriptor: &ann, From: "2026-11-22T11:00:00", To: "2026-11-22T11:30:00"},
			"Nothing like that was denied here from 2026-11-22 11:13:00 to 2026-11-22 11:30:00; what was denied before is not all kept. Each replica"},
		{"a time of which nothing is known", denialsCommand{From: "2026-11-22T11:00:00", To: "2026-11-22T11:13:00"},
			"Unknown: all denials are kept since 2026-11-22 11:13:00 only, and nothing like that is left from before. Each replica"},
		{"a descriptor that is none", denialsCommand{Descriptor: new("bob")}, `inside a value as \,. The most similar one is user=bob, which was denied recently`},
		{"one that was not denied", denialsCommand{Descriptor: new("user=bo"), N: 20}, "The most similar one is user=bob, which was denied recently.\n"},
		{"a time that is none", denialsCommand{From: "yesterday"}, `answers 400: from: "yesterday" is not a time`},
		{"a zone that is none", denialsCommand{From: "-1h", TZ: "Berlin"}, `error: --tz "Berlin" is not a time zone`},
	} {
		if got := w.run(t, c.asked); !strings.Contains(got, c.want) {
			t.Errorf("%s: printed is\n%s\nwant\n%s", c.promise, got, c.want)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend"
	"github.com/weirproxy/weir/backend/backendtest/fixture"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/adminport"
	"github.com/weirproxy/weir/cmd/weir/terminal"
	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server"
	"github.com/weirproxy/weir/server/admin"
	"github.com/weirproxy/weir/server/hits"
	"github.com/weirproxy/weir/server/limit"
)

const goodShop = `domain: shop
descriptors:
  - key: user
    rate_limits:
      - {requests_per_unit: 10, unit: minute}
      - {requests_per_unit: 500, unit: hour, unit_multiplier: 2}
    descriptors:
      - {key: path, value: /pay, message: slow down, rate_limit: {requests_per_unit: 5, unit: minute, algorithm: fixed_window}}
`

// countersPort returns an admin port with goodShop in force and hits of ann at 12:00:12 and at 12:00:33, the current time.
func countersPort(t *testing.T, g *admin.Access) *httptest.Server {
	t.Helper()
	config, now := fixture.Config(t, goodShop), time.Date(2026, 11, 21, 12, 0, 12, 0, time.UTC)
	store := fixture.Memory(t, func() time.Time { return now })
	limiter := limit.New(store, limit.Options{Algorithm: descriptors.SlidingWindow}, hits.New(0))
	limiter.Apply(config)
	hit := func(hits uint64) {
		d := descriptors.Descriptor{{Key: "user", Value: "ann"}}
		m := config.Match("shop", d)
		checks := []backend.Check{{Key: m.AppendKey(nil, "shop", d), Limits: m.Rule.Limits, Hits: hits}}
		if err := store.Decide(t.Context(), checks, make([]backend.Decision, 1)); err != nil {
			t.Fatal(err)
		}
	}
	hit(3)
	now = now.Add(21 * time.Second)
	hit(6)
	s := httptest.NewServer(admin.Handler(admin.Parts{
		Ready: server.NewHealth(server.HealthRules{}).Ready, Metrics: http.NotFoundHandler(),
		Counters: &admin.Counters{Rules: limiter, Counter: store, Store: store, Log: slog.New(slog.DiscardHandler)},
		Access:   g,
	}))
	t.Cleanup(s.Close)
	return s
}

// annTarget returns flags for a port and the descriptor of ann.
func annTarget(s *httptest.Server) countersTarget {
	return countersTarget{Domain: "shop", Descriptor: "user=ann", portFlags: flagsFor(s)}
}

// flagsFor returns flags that name a port.
func flagsFor(s *httptest.Server) portFlags {
	return portFlags{Port: adminport.Port{Address: s.Listener.Addr().String(), Timeout: time.Minute}}
}

// utc returns an Output to w, with times in UTC.
func utc(w io.Writer) terminal.Output { return terminal.Output{Out: w, Zone: time.UTC} }

// A grant to a mistyped user changes nothing; the exit code and the JSON say so.
func TestCountersShowsKeysAndReportsChanges(t *testing.T) {
	ann := annTarget(countersPort(t, &admin.Access{Host: "127.0.0.1"}))
	anne, asJSON, anneAsJSON := ann, ann, ann
	anne.Descriptor, anneAsJSON.Descriptor = "user=anne", "user=anne"
	asJSON.JSON, anneAsJSON.JSON = true, true
	const nothing = `Nothing was counted under this key.
shop user=anne   rule user
10/minute   0 before, 0 of 10, 10 remaining
500/2hour   0 before, 0 of 500, 500 remaining
`
	for _, c := range []struct {
		promise string
		command interface {
			Run(context.Context, terminal.Output) error
		}
		code int
		want string // the end of the output
	}{
		{"buckets are shown by level", &countersGet{ann}, 0, `shop user=ann   rule user

10/minute   9 of 10, 1 remaining, resets in 40s
  1s    12:00:12  3  ███████████████
        12:00:33  6  ██████████████████████████████
  1m    2026-11-21 12:00  9  ██████████████████████████████

500/2hour   9 of 500, 491 remaining, resets in 2h
  1m    2026-11-21 12:00  9  ██████████████████████████████
  1h    2026-11-21 12:00  9  ██████████████████████████████
`},
		{"a grant of nothing", &countersGrant{anne, 50}, 1, nothing},
		{"a reset of nothing", &countersReset{anne}, 1, nothing},
		{"a grant of nothing, as JSON", &countersGrant{anneAsJSON, 50}, 1, `"asked":50,"hits_before":0,"given_back":0}` + "\n"},
		{"hits are given back", &countersGrant{ann, 4}, 0, `Gave back 4 of 4 hits: 9 counted.
shop user=ann   rule user
10/minute   9 before, 5 of 10, 5 remaining, resets in 40s
500/2hour   9 before, 5 of 500, 495 remaining, resets in 2h
`},
		{"all is forgotten", &countersReset{ann}, 0, `Forgot 5 hits.
shop user=ann   rule user
10/minute   5 before, 0 of 10, 10 remaining
500/2hour   5 before, 0 of 500, 500 remaining
`},
		{"--json is what the port answers", &countersGet{asJSON}, 0, `"levels":[{"width":"1m","buckets":[]},{"width":"1h","buckets":[]}]}]}` + "\n"},
	} {
		var out strings.Builder
		err := c.command.Run(t.Context(), utc(&out))
		code, told := terminal.ExitCode(err)
		if code != c.code || !told || !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%s: it ends with %v, and prints\n%s\nwant exit code %d and\n%s", c.promise, err, &out, c.code, c.want)
		}
	}
}

func TestCountersErrorsAreSentences(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a secret of weir\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	open, guarded := countersPort(t, &admin.Access{}), countersPort(t, &admin.Access{TokenFile: token})
	gone := process.Addr(t) // where nobody listens
	for _, c := range []struct {
		promise string
		port    *httptest.Server
		change  func(*countersReset)
		want    string
	}{
		{"nobody listens", open, func(c *countersReset) { c.Address = gone },
			gone + ": connect: connection refused"},
		{"writes are not open", open, func(*countersReset) {},
			"answers 403: Admin writes need ADMIN_TOKEN_FILE or a loopback DEBUG_HOST."},
		{"no token", guarded, func(*countersReset) {}, "--token-file"},
		{"the token", guarded, func(c *countersReset) { c.Token = "a secret of weir" }, ""},
		{"an unknown domain", guarded, func(c *countersReset) { c.Domain, c.Token = "shp", "a secret of weir" }, "The configured ones are shop."},
		{"a torn descriptor", open, func(c *countersReset) { c.Descriptor = "user" }, `has no "="`},
	} {
		cmd, code := &countersReset{annTarget(c.port)}, 2
		if c.want == "" {
			code = 0
		}
		c.change(cmd)
		if err := cmd.Run(t.Context(), utc(io.Discard)); finish(err) != code || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: got %v, want an error with %q and exit code %d", c.promise, err, c.want, code)
		}
	}
}

// The text has the newest buckets of a long level and the sum of the others, and the level of a token bucket.
func TestCountersShowTheNewestBuckets(t *testing.T) {
	bucket := countersView{zone: time.UTC, answer: admin.CountersAnswer{Limits: []admin.LimitAnswer{
		{Limit: "10/minute", Burst: 5, Hits: 2, Remaining: 3, ResetSeconds: 4, Levels: []admin.LevelAnswer{}}}}}
	if want := "\n10/minute   2 of 5, 3 remaining, the next leaks in 4s\n"; !strings.HasSuffix(bucket.String(), want) {
		t.Errorf("got %q, want it to end with %q", bucket.String(), want)
	}
	level := admin.LevelAnswer{Width: "1s"}
	for i := range maxBucketRows + 40 {
		level.Buckets = append(level.Buckets, admin.BucketAnswer{Start: 1795262400 + float64(i), Hits: 1})
	}
	v := countersView{zone: time.UTC, answer: admin.CountersAnswer{Limits: []admin.LimitAnswer{
		{Limit: "5000/hour", Hits: 100, Remaining: 4900, ResetSeconds: 29, Levels: []admin.LevelAnswer{level}}}}}
	lines := strings.Split(v.String(), "\n")
	for i, want := range []string{
		"5000/hour   100 of 5000, 4900 remaining, resets in 29s",
		"  1s    … 40 earlier buckets hold 40 hits (--json lists them)",
		"        12:00:40  1  " + strings.Repeat("█", barWidth),
	} {
		if got := lines[2+i]; got != want {
			t.Errorf("line %d is %q, want %q", 2+i, got, want)
		}
	}
	if want := 2 + 2 + maxBucketRows + 1; len(lines) != want {
		t.Errorf("%d lines are shown, want %d", len(lines), want)
	}
}

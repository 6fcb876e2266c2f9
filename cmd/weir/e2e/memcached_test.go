package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/memcachedtest"
	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

const patientMemcached = "MEMCACHE_TIMEOUT=60s"

// Two weirs count in one memcached: three an hour of each user between them. It is killed and started again.
func TestTwoWeirsCountInOneMemcached(t *testing.T) {
	t.Parallel()
	server := memcachedtest.Start(t)
	settings := []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + server.Addr, patientMemcached, "ON_BACKEND_FAILURE=deny"}
	rules := weirtest.Rule("small", "unit: hour, requests_per_unit: 3")
	one, other := weirtest.Serve(t, rules, settings...), weirtest.Serve(t, rules, settings...)
	asks := []*weirtest.Client{one.Client(t), other.Client(t)}
	awaitHit(t, asks[0], "first")
	awaitHit(t, asks[1], "first")
	for i := range 5 {
		got, err := asks[i%2].Hit("small", "ann")
		if err != nil {
			t.Fatal(err)
		}
		if denied := got.Code == rlspb.RateLimitResponse_OVER_LIMIT; denied != (i >= 3) {
			t.Errorf("hit %d is denied: %v; want three an hour, whichever weir is asked", i+1, denied)
		}
	}
	if text, code := one.Command(t, "counters", "get", "--domain", "shop", "--descriptor", "plan=small,user=ann"); code != 0 || !strings.Contains(text, "3 of 3") {
		t.Errorf("counters get exits with %d and prints\n%s", code, text)
	}
	server.Kill()
	one.Eventually(t, "it knows that memcached is away, and denies by its policy", func() error {
		got, err := asks[0].Hit("small", "bob")
		if err == nil && got.Code != rlspb.RateLimitResponse_OVER_LIMIT {
			err = errors.New("bob's hit passes")
		}
		m, failed := one.Scrape()
		if m[`weir_memcached_servers{state="away"}`] != 1 || m.Sum("weir_degraded_total", `policy="deny",reason="down"`) == 0 {
			err = errors.Join(err, errors.New("no server is away, or no decision is told to be degraded"))
		}
		return errors.Join(err, failed)
	})
	if err := weirtest.WantStatus(one.HTTP+"/healthcheck", 200); err != nil {
		t.Error(err)
	}
	server.Restart()
	awaitHit(t, asks[0], "again")
	one.Says(t, "memcached server does not answer", "memcached server answers again")
	one.Drain(t)
}

// awaitHit waits until a user's hit is counted.
func awaitHit(t *testing.T, c *weirtest.Client, user string) {
	t.Helper()
	weirtest.Eventually(t, "a hit is counted", func() error {
		got, err := c.Hit("small", fmt.Sprint(user, time.Now().UnixNano()))
		if err == nil && got.LimitRemaining != 2 {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
}

// As ratelimit with that program's environment alone, half of the hits are those of its client.
func TestRatelimitCountsContinueInMemcached(t *testing.T) {
	t.Parallel()
	server := memcachedtest.Start(t)
	w := weirtest.Ratelimit(t, weirtest.Rule("small", "unit: day, requests_per_unit: 4"),
		"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT="+server.Addr, "MEMCACHE_MAX_IDLE_CONNS=2", patientMemcached)
	c := w.Client(t)
	weirtest.Eventually(t, "it is healthy, where the other program never is", func() error { return weirtest.WantStatus(w.HTTP+"/healthcheck", 200) })
	var names []string
	for day := range int64(2) { // midnight may come between
		names = append(names, fmt.Sprintf("shop_plan_small_user_ann_%d", (time.Now().Unix()/86400+day)*86400))
		server.Ask("add "+names[day]+" 0 180000 1\r\n2\r\n", 1)
	}
	for i, want := range []rlspb.RateLimitResponse_Code{rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OK, rlspb.RateLimitResponse_OVER_LIMIT} {
		got, err := c.Hit("small", "ann")
		if err != nil || got.Code != want {
			t.Errorf("after 2 hits of ratelimit's, hit %d of 4 a day: %v, %v; want %v", i+3, got, err, want)
		}
	}
	if got := server.Number(names[0]) + server.Number(names[1]); got != 7 {
		t.Errorf("%v hold %d hits; want 2 each, and the 3 of weir beside them", names, got)
	}
}

// A log cannot be counted there: it is refused at the start, and on a reload, which keeps the last good rules.
func TestSlidingLogIsRefusedWithMemcached(t *testing.T) {
	t.Parallel()
	settings := []string{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=" + memcachedtest.Start(t).Addr, patientMemcached}
	w := weirtest.Serve(t, weirtest.Rule("small", "unit: hour, requests_per_unit: 3"), settings...)
	w.Configure(t, weirtest.Rule("small", "unit: hour, requests_per_unit: 3, algorithm: sliding_log"))
	w.Says(t, "memcached cannot count a sliding_log", "use sliding_window")
	awaitHit(t, w.Client(t), "ann")
	broken := weirtest.New(t, append(settings, "ALGORITHM=sliding_log")...)
	broken.Start(t, process.Weir(t), "serve", "--config", broken.Config)
	if code := broken.ExitCode(t); code == 0 {
		t.Error("with ALGORITHM=sliding_log it serves")
	}
	broken.Says(t, "ALGORITHM=\"sliding_log\": memcached cannot count a sliding_log")
}

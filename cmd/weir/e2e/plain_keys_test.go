package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Half of the requests are envoyproxy/ratelimit's, as it writes them; the other half are weir's, which may do no more
// than that program: all are one count. A rule that this program cannot count is refused, and harms no other.
func TestWeirCountsBesideRatelimitWithNoMoreRights(t *testing.T) {
	t.Parallel()
	const each, n = 1000, 1500
	server := redistest.Single(t, redistest.WithACL("limiter", "secret", "resetchannels", "~*", "+incrby", "+expire", "+get", "+ping", "+hello"))
	w := startWeir(t, fmt.Sprintf(`
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: %d }
- key: plan
  value: rolling
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 3, algorithm: sliding_window }
`, n), "REDIS_URL="+server.Addr, "REDIS_AUTH=limiter:secret", "KEY_FORMAT=ratelimit", "ALGORITHM=fixed_window",
		"ON_BACKEND_FAILURE=error", "HISTORY=false", patientRedis)
	c := w.client(t)
	eventually(t, "it counts", func() error {
		_, err := c.look("basic", "ann")
		return err
	})
	const year = 365 * 86400
	key := fmt.Sprintf("shop_plan_basic_user_ann_%d", time.Now().Unix()/year*year)
	var running sync.WaitGroup
	var within atomic.Int64
	for range 4 {
		running.Go(func() {
			for range each / 4 {
				pipe := server.Client().Pipeline()
				count := pipe.IncrBy(context.Background(), key, 1)
				pipe.Expire(context.Background(), key, year*time.Second)
				if _, err := pipe.Exec(context.Background()); err != nil {
					t.Error(err)
				}
				if count.Val() <= n {
					within.Add(1)
				}
			}
		})
		running.Go(func() {
			for range each / 4 {
				s, err := c.hit("basic", "ann")
				if err != nil {
					t.Error(err)
				} else if s.Code.String() == "OK" {
					within.Add(1)
				}
			}
		})
	}
	running.Wait()
	if got := within.Load(); got != n {
		t.Errorf("both let %d requests through under a limit of %d a year", got, n)
	}
	if got, err := server.Client().Get(t.Context(), key).Int(); err != nil || got != 2*each {
		t.Errorf("%s holds %d (%v), want %d: one count", key, got, err, 2*each)
	}
	refused, err := server.Client().ACLLog(t.Context(), 100).Result()
	if err != nil || len(refused) > 0 {
		t.Errorf("the ACL refused %v (%v), want nothing: envoyproxy/ratelimit's rights are enough", refused, err)
	}
	if text := metricsOf(t, w); !strings.Contains(text, fmt.Sprintf(`weir_redis_checks_total{redis="main"} %d`, each+1)) {
		t.Errorf("the metrics do not tell of %d checks for Redis:\n%s", each+1, linesWith(text, "weir_redis_"))
	}
	testCountersOfPlainKeys(t, w, c, n, 2*each)
	if _, err := c.hit("rolling", "ann"); err == nil {
		t.Error("a rolling window was counted without the right to do so")
	}
	if _, err := c.look("basic", "ann"); err != nil {
		t.Errorf("beside a rule that cannot be counted: %v", err)
	}
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil || !slices.Equal(keys, []string{key}) {
		t.Errorf("Redis holds %q (%v), want the key of envoyproxy/ratelimit alone", keys, err)
	}
}

// testCountersOfPlainKeys grants hits, shows what is left, and fails to reset the user's key of a plan under n requests a
// year, of which so many are counted.
func testCountersOfPlainKeys(t *testing.T, w *weir, c *client, n, counted int) {
	t.Helper()
	counters := func(verb string, more ...string) string {
		args := append([]string{"counters", verb, "--admin", strings.TrimPrefix(w.admin, "http://"), "--domain", "shop",
			"--descriptor", "plan=basic,user=ann"}, more...)
		p := process.Start(t, "weir counters "+verb, nil, weirBinary, args...)
		if code := p.ExitCode(t); code != 0 && verb != "reset" {
			t.Errorf("weir counters %s ends with exit code %d", verb, code)
		}
		return p.Log.String()
	}
	counters("grant", "--hits", "600")
	if shown := counters("get", "--json"); !strings.Contains(shown, fmt.Sprintf(`"hits":%d,`, counted-600)) {
		t.Errorf("weir counters shows %s, want %d hits", shown, counted-600)
	}
	if s, err := c.hit("basic", "ann"); err != nil || int(s.LimitRemaining) != n-(counted-600)-1 {
		t.Errorf("after a grant: %v, %v; want %d left", s, err, n-(counted-600)-1)
	}
	if shown := counters("reset"); !strings.Contains(shown, "+del") {
		t.Errorf("a reset that the user may not do prints %q, want the right that is missing", shown)
	}
}

// metricsOf returns weir's own metrics.
func metricsOf(t *testing.T, w *weir) string {
	t.Helper()
	answer, err := http.Get(w.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// linesWith returns the lines of a text that hold a word.
func linesWith(text, word string) (lines string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			lines += line
		}
	}
	return lines
}

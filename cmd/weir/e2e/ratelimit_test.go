package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// In place of envoyproxy/ratelimit, weir is started by its name, with no arguments and its variables. Only ports and
// the socket are of this test, since others share the machine.
func TestStartedAsRatelimitItServesAsTheOneThatItReplaces(t *testing.T) {
	t.Parallel()
	process.Weir(t) // so that go test sees what its result hangs on
	server := redistest.Single(t, redistest.WithUnixSocket())
	root := t.TempDir()
	config := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		t.Fatal(err)
	}
	const file = `
domain: shop
descriptors:
  - key: plan
    value: basic
    descriptors:
      - key: user
        rate_limit:
          unit: hour
          requests_per_unit: 3
`
	if err := os.WriteFile(filepath.Join(config, "config.yaml"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(weirBinary, binary); err != nil {
		t.Fatal(err)
	}
	w := &weir{grpcPort: process.Port(t)}
	debugPort := process.Port(t)
	w.admin = fmt.Sprintf("http://127.0.0.1:%d", debugPort)
	w.Process = process.Start(t, "ratelimit", []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_URL=" + server.Socket,
		fmt.Sprint("GRPC_PORT=", w.grpcPort), fmt.Sprint("PORT=", process.Port(t)), fmt.Sprint("DEBUG_PORT=", debugPort),
	}, binary)
	w.AwaitReady(t, func() error { return wantStatus(w.admin+"/readyz", 200) })

	c := w.client(t)
	eventually(t, "it counts", func() error {
		_, err := c.look("basic", "ann")
		return err
	})
	hour := int64(time.Hour / time.Second)
	if left := hour - time.Now().Unix()%hour; left < 10 {
		time.Sleep(time.Duration(left) * time.Second) // all hits are to be of one hour
	}
	for i, want := range []string{"OK", "OK", "OK", "OVER_LIMIT"} {
		s, err := c.hit("basic", "ann")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Code.String(); got != want {
			t.Errorf("hit %d of 3 an hour is answered %s, want %s", i+1, got, want)
		}
		left := hour - time.Now().Unix()%hour
		if got := s.DurationUntilReset.Seconds; got > left+60 || got < left-60 {
			t.Errorf("the limit resets in %d s, want %d s: windows begin on the hour", got, left)
		}
	}
	key := fmt.Sprintf("shop_plan_basic_user_ann_%d", time.Now().Unix()/hour*hour)
	if n, err := server.Client().Get(t.Context(), key).Int(); err != nil || n != 4 {
		t.Errorf("the key %s holds %d (%v), want 4 hits: envoyproxy/ratelimit counts there, too", key, n, err)
	}
	if keys, err := server.Client().Keys(t.Context(), "*3:ann*").Result(); err != nil || len(keys) != 0 {
		t.Errorf("Redis holds %q (%v), want nothing of the user's beside that", keys, err)
	}
	log := w.Log.String()
	for _, told := range []string{"ALGORITHM=sliding_window gives rolling", "REDIS_HISTORY_URL, or a DATA_DIR"} {
		if n := strings.Count(log, told); n != 1 {
			t.Errorf("%q is told %d times, want once", told, n)
		}
	}
	for _, line := range warned(w.Process, "") {
		if !strings.Contains(line, "started as ratelimit") && !strings.Contains(line, "no history is kept") &&
			!strings.Contains(line, "listening") {
			t.Errorf("it starts with a warning more than it takes: %s", line)
		}
	}
}

func TestLimitsPerSecondAreCountedInTheSecondRedis(t *testing.T) {
	t.Parallel()
	main, perSecond := redistest.Single(t), redistest.Single(t)
	w := startWeir(t, `
- key: plan
  value: fast
  descriptors:
  - key: user
    rate_limit: { unit: second, unit_multiplier: 9000, requests_per_unit: 1000 }
- key: plan
  value: slow
  descriptors:
  - key: user
    rate_limits:
    - { unit: second, unit_multiplier: 9000, requests_per_unit: 1000 }
    - { unit: hour, requests_per_unit: 1000 }
`, "REDIS_URL="+main.Addr, "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL="+perSecond.Addr,
		patientRedis, "REDIS_PERSECOND_TIMEOUT=30s")
	c := w.client(t)
	for plan, at := range map[string]*redistest.Server{"fast": perSecond, "slow": main} {
		eventually(t, "it counts", func() error {
			_, err := c.hit(plan, "ann")
			return err
		})
		for _, server := range []*redistest.Server{main, perSecond} {
			keys, err := server.Client().Keys(t.Context(), "*4:"+plan+"*").Result()
			if err != nil || (len(keys) == 1) != (server == at) {
				t.Errorf("plan %s: the Redis at %s holds %q (%v), want the count at %s", plan, server.Addr, keys, err, at.Addr)
			}
		}
		counters := process.Start(t, "weir counters", nil, weirBinary, "counters", "get", "--admin", strings.TrimPrefix(w.admin, "http://"),
			"--domain", "shop", "--descriptor", "plan="+plan+",user=ann", "--json")
		if code := counters.ExitCode(t); code != 0 || !strings.Contains(counters.Log.String(), `"hits":1,`) {
			t.Errorf("weir counters shows %s (exit code %d), want the hit of plan %s", counters.Log.String(), code, plan)
		}
	}
}

func TestItGivesUpWhereRedisIsNeverReachedAndWasToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	server.Kill()
	w := startWeir(t, "- { key: plan, rate_limit: { unit: hour, requests_per_unit: 3 } }", "REDIS_URL="+server.Addr,
		"DRAIN_DELAY=0s", "REDIS_STARTUP_MAX_ELAPSED_TIME=1s")
	if code := w.ExitCode(t); code != 1 {
		t.Errorf("it ended with exit code %d, want 1", code)
	}
	log := w.Log.String()
	for _, want := range []string{"weir gives up", "REDIS_STARTUP_MAX_ELAPSED_TIME", server.Addr} {
		if !strings.Contains(log, want) {
			t.Errorf("why it ended is told without %q", want)
		}
	}

	server.Restart(t)
	w.env[len(w.env)-1] = "REDIS_STARTUP_MAX_ELAPSED_TIME=5s" // longer than it may take to find a Redis that is there
	w.start(t)
	time.Sleep(6 * time.Second)
	if err := w.Ended(); err != nil {
		t.Errorf("with Redis there it gave up: %v", err)
	}
}

func TestHealthFollowsRedisWhereItWasToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := startWeir(t, `
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 100 }
`, "REDIS_URL="+server.Addr, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true", "REDIS_TIMEOUT=200ms")
	c := w.client(t)
	health := func(ready, healthcheck int) func() error {
		return func() error {
			return errors.Join(wantStatus(w.admin+"/readyz", ready), wantStatus(w.http+"/healthcheck", healthcheck))
		}
	}
	eventually(t, "with Redis it is healthy", health(200, 200))
	server.Kill()
	_, _ = c.hit("basic", "ann") // it fails, and so Redis is looked at
	eventually(t, "without Redis it is not", health(503, 500))
	if err := wantStatus(w.admin+"/livez", 200); err != nil {
		t.Error(err)
	}
	server.Restart(t)
	eventually(t, "it is again, though nobody has asked", health(200, 200))
}

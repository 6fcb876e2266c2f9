package e2e_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

func TestHealthFollowsRedisWhereItWasToldTo(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	w := weirtest.Serve(t, largePlan, "REDIS_URL="+server.Addr, "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION=true")
	becomes := func(when string, ready, healthcheck int) {
		t.Helper()
		weirtest.Eventually(t, when, func() error {
			return errors.Join(weirtest.WantStatus(w.Admin+"/readyz", ready), weirtest.WantStatus(w.HTTP+"/healthcheck", healthcheck))
		})
	}
	becomes("with Redis it is healthy", 200, 200)
	server.Kill()
	_, _ = w.Client(t).Hit("large", "ann") // it fails, and so Redis is looked at
	becomes("without Redis it is not", 503, 500)
	if err := weirtest.WantStatus(w.Admin+"/livez", 200); err != nil {
		t.Error(err)
	}
	server.Restart(t)
	becomes("it is again, though nobody has asked", 200, 200)
}

// That it never gives up once Redis was there is proven of package redis, where time is an argument.
func TestItGivesUpWhereRedisIsNeverReachedAndWasToldTo(t *testing.T) {
	t.Parallel()
	nobody := "127.0.0.1:" + fmt.Sprint(process.Port(t))
	w := weirtest.New(t, "REDIS_URL="+nobody, "DRAIN_DELAY=0s", "REDIS_STARTUP_MAX_ELAPSED_TIME=1s")
	w.Start(t, process.Weir(t), "serve", "--config", w.Config)
	if code := w.ExitCode(t); code != 1 {
		t.Errorf("it ended with exit code %d, want 1", code)
	}
	w.Says(t, "weir gives up", "REDIS_STARTUP_MAX_ELAPSED_TIME", nobody)
}

// What each setting does is proven of the packages that it is handed to; here, that it reaches them.
func TestSettingsOfTheStoreReachIt(t *testing.T) {
	t.Parallel()
	main, perSecond := redistest.Single(t), redistest.Single(t)
	w := weirtest.Serve(t, weirtest.Rule("fast", "unit: second, unit_multiplier: 9000, requests_per_unit: 1, algorithm: fixed_window")+
		weirtest.Rule("slow", "unit: hour, requests_per_unit: 1000"),
		"REDIS_URL="+main.Addr, "REDIS_PERSECOND=true", "REDIS_PERSECOND_URL="+perSecond.Addr, weirtest.PatientRedis,
		"REDIS_PERSECOND_TIMEOUT=60s", "CACHE_KEY_PREFIX=blue:", "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true")
	c := w.Client(t)
	awaitCounts(t, c, "fast")
	awaitCounts(t, c, "slow")
	for range 2 { // the second is over the limit of one a second
		if _, err := c.Ask("shop", weirtest.Describe("plan", "fast", "user", "ann"), weirtest.Describe("plan", "slow", "user", "ann")); err != nil {
			t.Fatal(err)
		}
	}
	for plan, want := range map[string]uint64{"fast": 2, "slow": 1} {
		if n, err := w.Counted(plan, "ann"); err != nil || n != want {
			t.Errorf("plan %s: %d hits are counted (%v), want %d: none may be lost or count twice", plan, n, err, want)
		}
	}
	for plan, at := range map[string]*redistest.Server{"fast": perSecond, "slow": main} {
		for _, server := range []*redistest.Server{main, perSecond} {
			keys, err := server.Client().Keys(t.Context(), "*}5:blue:4:shop4:plan4:"+plan+"4:user3:ann").Result()
			if err != nil || (len(keys) == 1) != (server == at) {
				t.Errorf("plan %s: the Redis at %s holds %q (%v), want the count, with the prefix, at %s", plan, server.Addr, keys, err, at.Addr)
			}
		}
	}
}

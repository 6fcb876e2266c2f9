package e2e_test

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

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

package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/backend/redis/script"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// What each setting does is proven of the packages that it is handed to; here, that it reaches them.
func TestStoreSettingsReachTheStore(t *testing.T) {
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

// A weir whose library somebody else replaces counts on by scripts, as one does that never uses functions.
func TestForeignLibraryIsReportedWhileScriptsCount(t *testing.T) {
	t.Parallel()
	redis, rule := redistest.Single(t), weirtest.Rule("slow", "unit: hour, requests_per_unit: 3")
	scripts := weirtest.Serve(t, rule, "REDIS_URL="+redis.Addr, weirtest.PatientRedis, "REDIS_FUNCTIONS=false")
	byScripts := scripts.Client(t)
	awaitCounts(t, byScripts, "slow")
	if stats := redis.Client().Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_fcall") {
		t.Errorf("REDIS_FUNCTIONS=false calls functions:\n%s", stats)
	}
	w := weirtest.Serve(t, rule, "REDIS_URL="+redis.Addr, weirtest.PatientRedis)
	byFunctions := w.Client(t)
	awaitCounts(t, byFunctions, "slow")
	library := fmt.Sprintf("#!lua name=%s\nredis.register_function('%[1]s', function() return {string.rep('\\0', 17)} end)", script.Function())
	if err := redis.Client().FunctionLoadReplace(t.Context(), library).Err(); err != nil {
		t.Fatal(err)
	}
	metric := fmt.Sprintf("weir_redis_foreign_library{redis=%q,server=%q}", "main", redis.Addr)
	w.Eventually(t, "/readyz and a metric tell of the foreign library", func() error {
		_, lookErr := byFunctions.Look("slow", "ann") // only a server that is asked is compared
		ready, err := weirtest.Get(w.Admin + "/readyz")
		metrics, scrapeErr := w.Scrape()
		if want := "OK\nforeign library " + script.Function() + " in redis " + redis.Addr; !strings.HasPrefix(ready, want) || metrics[metric] != 1 {
			return fmt.Errorf("/readyz says %q, want %q, and %s is %v, want 1", ready, want, metric, metrics[metric])
		}
		return errors.Join(lookErr, err, scrapeErr)
	})
	admitted := 0
	for _, c := range []*weirtest.Client{byFunctions, byScripts, byFunctions, byScripts} {
		d, err := c.Hit("slow", "ann")
		if err != nil {
			t.Fatal(err)
		}
		if d.GetCode() == rlspb.RateLimitResponse_OK {
			admitted++
		}
	}
	if admitted != 3 {
		t.Errorf("two weirs admit %d of 4 hits, want 3: they count together", admitted)
	}
	ready, err := weirtest.Get(scripts.Admin + "/readyz")
	metrics, scrapeErr := scripts.Scrape()
	if value, shown := metrics[metric]; ready != "OK\n" || value != 0 || !shown {
		t.Errorf("without functions /readyz says %q (%v), and %s is %v (%v), want OK and 0", ready, err, metric, value, scrapeErr)
	}
}

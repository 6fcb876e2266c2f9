package dropin_test

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/certs/certstest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// A compose file says command: /bin/ratelimit, which becomes an argument of the image's entry point.
func TestAComposeFilesCommandStartsItAndAnEmptyConfigurationAnswersOK(t *testing.T) {
	onNode(t, func(t *testing.T) {
		weirtest.AwaitRoomInHour()
		redis := redistest.Single(t)
		redistest.ProxyAt(t, "127.0.0.1:6379", redis.Addr)
		config := t.TempDir()
		certstest.Mount(t, config, map[string]string{})
		weir := container{
			Host: "8f14e45fceea", User: 65532, Command: []string{"/bin/weir", "/bin/ratelimit"},
			Mounts: map[string]string{"/data/ratelimit/config": config},
		}.start(t, []string{
			"LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis:6379", "RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit",
			"RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true", "USE_STATSD=false",
		})
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:8080/healthcheck", 200) })
		// It is healthy before it has read any files.
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:6070/readyz", 200) })
		client := weirtest.Dial(t, "127.0.0.1:8081")
		wantVerdicts := func(promise string, want ...string) {
			t.Helper()
			for i, want := range want {
				answer, err := client.Ask("shop", weirtest.Describe("plan", "basic"))
				if got := answer.GetOverallCode().String(); err != nil || got != want {
					t.Errorf("%s: hit %d is answered %s (%v), want %s", promise, i+1, got, err, want)
				}
			}
		}
		wantVerdicts("without any rule", "OK")

		certstest.Mount(t, config, map[string]string{"shop.yaml": "domain: shop\ndescriptors: [{key: plan, value: basic, rate_limit: {unit: hour, requests_per_unit: 3}}]"})
		wantRules(t, "a file that comes is read", "http://127.0.0.1:6070/rlconfig",
			"shop.plan_basic: unit=HOUR requests_per_unit=3, shadow_mode: false, quota_mode: false")
		wantVerdicts("3 an hour", "OK", "OK", "OK", "OVER_LIMIT", "OVER_LIMIT")
	})
}

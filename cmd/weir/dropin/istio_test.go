package dropin_test

import (
	"fmt"
	"net"
	"testing"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/certstest"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Its command comes as an argument of the image's entry point, as a compose file's does. Without any rule, every request
// is OK.
func TestIstioSampleWorksWithTheImageSwapped(t *testing.T) {
	onNode(t, func(t *testing.T) {
		weirtest.AwaitRoomInHour()
		redis := redistest.Single(t)
		redistest.ProxyAt(t, "127.0.0.1:6379", redis.Addr)
		config := t.TempDir()
		certstest.Mount(t, config, map[string]string{})
		weir := container{
			Host: "ratelimit-7c8d6b5f4-k9m2p", User: 65532, Command: []string{"/bin/weir", "/bin/ratelimit"},
			Mounts: map[string]string{"/data/ratelimit/config": config},
		}.start(t, kubernetes([]string{
			"LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis:6379", "USE_STATSD=false", "RUNTIME_ROOT=/data",
			"RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true", "HOST=::", "GRPC_HOST=::",
		}, "redis:6379", "ratelimit:8080"))
		const rules = "http://127.0.0.1:6070/rlconfig"
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:8080/healthcheck", 200) })
		// It is healthy before it has read any files.
		weir.AwaitReady(t, func() error { return weirtest.WantStatus("http://127.0.0.1:6070/readyz", 200) })
		answer, err := weirtest.Dial(t, "127.0.0.1:8081").Ask("echo-ratelimit", weirtest.Describe("PATH", "/"))
		if answer.GetOverallCode() != rlspb.RateLimitResponse_OK || err != nil {
			t.Errorf("an empty configuration answers %v (%v), want OK", answer, err)
		}
		certstest.Mount(t, config, map[string]string{"config.yaml": istioRules(1, 100)})
		wantRules(t, "the sample's limits hold", rules,
			"echo-ratelimit.PATH_/: unit=MINUTE requests_per_unit=1, shadow_mode: false, quota_mode: false")
		e := startEnvoy(t, "istio.yaml.tmpl", map[string]any{"Domain": "echo-ratelimit", "FailureModeDeny": true})
		denied := 0
		for range 5 {
			if status, _ := e.get(t, "/"); status == 429 {
				denied++
			} else if status != 200 {
				t.Errorf("Envoy answers %d, want 200 or 429", status)
			}
		}
		if denied < 3 { // a minute may end between them
			t.Errorf("of 5 calls where 1 a minute is allowed %d are denied, want 4", denied)
		}
		for _, host := range []string{"127.0.0.1", "::1"} {
			conn, err := net.Dial("tcp", net.JoinHostPort(host, "8081"))
			if err != nil {
				t.Errorf("GRPC_HOST=:: is not reached: %v", err)
				continue
			}
			conn.Close()
		}

		certstest.Mount(t, config, map[string]string{"config.yaml": istioRules(100, 2)})
		wantRules(t, "a changed ConfigMap is read", rules,
			"echo-ratelimit.PATH_/other: unit=HOUR requests_per_unit=2, shadow_mode: false, quota_mode: false")
		e.wantStatuses(t, "the new limit of 2 an hour", "/other", 200, 200, 429)
		e.wantStatuses(t, "the raised limit", "/", 200)
		e.wantErrors(t, 0)
	})
}

// istioRules is Istio's ConfigMap: so many requests of / a minute, and of /other an hour.
func istioRules(home, other int) string {
	return fmt.Sprintf(`domain: echo-ratelimit
descriptors:
  - key: PATH
    value: "/"
    rate_limit:
      unit: minute
      requests_per_unit: %d
  - key: PATH
    value: "/other"
    rate_limit:
      unit: hour
      requests_per_unit: %d
  - key: PATH
    rate_limit:
      unit: minute
      requests_per_unit: 100
`, home, other)
}

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// Envoy Gateway asks /healthcheck whether to wait for a pod, to send it requests and to restart it.
func TestAsRatelimitRedisMakesItHealthyOnceAndNeverUnhealthy(t *testing.T) {
	t.Parallel()
	process.Weir(t) // so that go test sees what its result hangs on
	server := redistest.Single(t)
	server.Kill()
	binary := filepath.Join(t.TempDir(), "ratelimit")
	if err := os.Symlink(weirBinary, binary); err != nil {
		t.Fatal(err)
	}
	port := process.Port(t)
	env := []string{
		"RUNTIME_ROOT=" + t.TempDir(), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + server.Addr, "DRAIN_DELAY=0s", "HISTORY=false",
		fmt.Sprint("GRPC_PORT=", process.Port(t)), fmt.Sprint("PORT=", port), fmt.Sprint("DEBUG_PORT=", process.Port(t)),
	}
	first := process.Start(t, "ratelimit", env, binary)
	healthcheck := fmt.Sprintf("http://127.0.0.1:%d/healthcheck", port)
	healthy := func(status int) func() error {
		return func() error { return wantStatus(healthcheck, status) }
	}
	first.AwaitReady(t, healthy(500)) // it listens before Redis has answered, so that a probe hears why
	server.Restart(t)
	eventually(t, "it is healthy once Redis has answered", healthy(200))
	server.Kill()
	for range 10 {
		time.Sleep(100 * time.Millisecond)
		if err := healthy(200)(); err != nil {
			t.Fatalf("Redis is gone: %v; its pods would all be restarted for nothing", err)
		}
	}

	second := &weir{Process: process.Start(t, "ratelimit", env, binary)} // on the same ports, as a rollout on a host's network
	second.says(t, "listening")
	first.Terminate(t)
	if code := first.ExitCode(t); code != 0 {
		t.Errorf("the first ended with exit code %d", code)
	}
	if err := healthy(500)(); err != nil {
		t.Errorf("the second, whose Redis never answered: %v", err)
	}
}

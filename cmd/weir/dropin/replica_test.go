package dropin_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// replica is a weir under the name ratelimit, on ports of its own, with no container around it.
type replica struct {
	*process.Process
	port                   int
	grpc, health           string // where it answers calls, and its URL of health
	debug, metrics, config string // two URLs, and the folder of its descriptor files
}

// startReplica starts a weir with these files' text by name, on a Redis, and does not wait for it.
func startReplica(t *testing.T, weir string, files map[string]string, env ...string) *replica {
	t.Helper()
	process.Weir(t) // so that go test sees what its result hangs on
	dir := t.TempDir()
	r := &replica{port: process.Port(t), config: filepath.Join(dir, "ratelimit", "config")}
	binary := filepath.Join(dir, "bin", "ratelimit")
	err := os.MkdirAll(r.config, 0o755)
	if err == nil {
		err = os.Mkdir(filepath.Dir(binary), 0o755)
	}
	if err == nil {
		err = os.Symlink(weir, binary)
	}
	for name, text := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(r.config, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	http, debug, metrics := process.Port(t), process.Port(t), process.Port(t)
	r.grpc, r.health = fmt.Sprint("127.0.0.1:", r.port), fmt.Sprintf("http://127.0.0.1:%d/healthcheck", http)
	r.debug, r.metrics = fmt.Sprint("http://127.0.0.1:", debug), fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics)
	r.Process = process.Start(t, "ratelimit", append([]string{
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true",
		"REDIS_SOCKET_TYPE=tcp", "USE_STATSD=false", "USE_PROMETHEUS=true", fmt.Sprint("PROMETHEUS_ADDR=127.0.0.1:", metrics),
		"GRPC_HOST=127.0.0.1", fmt.Sprint("GRPC_PORT=", r.port), "HOST=127.0.0.1", fmt.Sprint("PORT=", http),
		"DEBUG_HOST=127.0.0.1", fmt.Sprint("DEBUG_PORT=", debug),
	}, env...), binary)
	return r
}

// ready waits until Redis answers it and it has its rules.
func (r *replica) ready(t *testing.T) {
	t.Helper()
	r.AwaitReady(t, func() error {
		if err := wantStatus(r.health, 200); err != nil {
			return err
		}
		return wantStatus(r.debug+"/readyz", 200)
	})
}

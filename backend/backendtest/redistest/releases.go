package redistest

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// Releases returns the servers that weir is tested on beside the one on PATH, for WithRelease: the oldest Redis that it
// supports, and a Valkey. make tools installs them, on Linux on x86-64 only. Elsewhere it returns the one on PATH, "",
// so that no test goes over nothing and proves nothing, and the test's log says what it lacks.
func Releases(t testing.TB) []string {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Logf("NOT TESTED HERE: Redis 6.2 and Valkey, which make tools installs on linux/amd64 only; this is %s/%s, and the "+
			"server on PATH is tested in their place", runtime.GOOS, runtime.GOARCH)
		return []string{""}
	}
	return []string{"redis-6.2", "valkey-9.1"}
}

// findBinary finds the server of a release, which make tools puts into .tools, or without one that on PATH: rather
// Redis, as Debian has it, than Valkey.
func findBinary(release string) (string, error) {
	if release == "" {
		return process.FindTool("redis-server", "valkey-server")
	}
	product, _, _ := strings.Cut(release, "-")
	return process.FindTool(filepath.Join(release, product+"-server"))
}

package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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

// findBinary finds the server of a release, or without one that on PATH: rather Redis, as Debian has it, than Valkey.
func findBinary(release string) (string, error) {
	if release != "" {
		return findRelease(release)
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if binary, err := exec.LookPath(name); err == nil {
			return binary, nil
		}
	}
	return "", errors.New("redis-server is not on PATH: run make tools")
}

// findRelease looks into .tools, which is beside the go.mod above the working directory.
func findRelease(release string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		above := filepath.Dir(dir)
		if above == dir {
			return "", fmt.Errorf("looking for the server of %s: no go.mod above the working directory", release)
		}
		dir = above
	}
	product, _, _ := strings.Cut(release, "-")
	binary := filepath.Join(dir, ".tools", release, product+"-server")
	if !exists(binary) {
		return "", fmt.Errorf("%s is not there: run make tools", binary)
	}
	return binary, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// WeirVariable names the weir that make test has built, once for all tests. Without it, as under a bare go test, each
// package builds its own, in the flavour that make test uses, so that Go's cache has most of it.
const WeirVariable = "WEIR_BINARY"

// Weir returns the path of the weir under test. Beside it stands a link named ratelimit, as in the image.
func Weir(t testing.TB) string {
	t.Helper()
	path, err := weir()
	if err == nil {
		_, err = os.Stat(path) // in the test, not before it: so go test sees what its result hangs on
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Ratelimit returns the path of the same binary under the incumbent's name.
func Ratelimit(t testing.TB) string {
	t.Helper()
	return filepath.Join(filepath.Dir(Weir(t)), "ratelimit")
}

var weir = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(WeirVariable); path != "" {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "test", "weir")
	release, err := lock(filepath.Dir(path)) // packages are tested beside each other
	if err != nil {
		return "", err
	}
	defer release()
	build := exec.Command("make", "--no-print-directory", "-C", root, "bin/test/weir")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building weir: %w\n%s", err, out)
	}
	return path, nil
})

// lock waits until no other process holds the lock of a folder, which it makes where there is none.
func lock(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// Tool returns the path of a program that is not weir's: that on PATH, else that which make tools has put into .tools.
func Tool(t testing.TB, names ...string) string {
	t.Helper()
	path, err := FindTool(names...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// FindTool is Tool without a test.
func FindTool(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		path := filepath.Join(root, ".tools", name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no %v on PATH or in .tools: %w", names, errNoTool)
}

// Root returns the absolute path of the folder of weir's sources, seen from the folder of a package's tests.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "descriptors", "schema.json")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no folder above this one is weir's")
}

// Raced reports whether this is a build with the race detector, which needs several times the time and memory.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

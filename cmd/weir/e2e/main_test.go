package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cmd/weir/e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if envoyBinary, err = findEnvoy(); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if weirBinary, err = buildWeir(dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// findEnvoy prefers an envoy on PATH, as make tools does.
func findEnvoy() (string, error) {
	if onPath, err := exec.LookPath("envoy"); err == nil {
		return onPath, nil
	}
	installed, err := filepath.Abs(filepath.Join(root, ".tools", "envoy"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(installed); err != nil {
		return "", errors.New("no envoy on PATH or in .tools, and these tests are about what Envoy sees: run make tools")
	}
	return installed, nil
}

func buildWeir(dir string) (string, error) {
	binary := filepath.Join(dir, "weir")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "..")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building weir: %w\n%s", err, out)
	}
	return binary, nil
}

// readSources opens each folder that weir is built from. Nothing here imports those packages, so without it go test
// would not see that they changed, and would give a cached result. It must run in a test: go test does not see what
// TestMain opens.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != root && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatalf("reading the folders of weir's sources: %v", err)
	}
}

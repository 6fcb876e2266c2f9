package child

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

// Main runs the tests of a package that needs an Envoy and a weir, which is built from the module at root: use is told the
// paths of both before. It returns the exit code.
func Main(m *testing.M, root string, use func(weir, envoy string)) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "before the tests:", err)
		return 1
	}
	envoy, err := findEnvoy(root)
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "weir-under-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	weir := filepath.Join(dir, "weir") // absolute, as dir is
	if err := Build(root, weir, RaceDetector); err != nil {
		return fail(err)
	}
	use(weir, envoy)
	return m.Run()
}

// findEnvoy returns the path of an Envoy: that on PATH, as make tools prefers it, else that in .tools of the module at
// root.
func findEnvoy(root string) (string, error) {
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

// Build builds the weir of the module at root, with the race detector or without.
func Build(root, binary string, race bool) error {
	args := []string{"build", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./cmd/weir")...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building weir: %w\n%s", err, out)
	}
	return nil
}

// ReadSources opens each folder of the module at root, which weir is built from. Tests that import none of its packages
// would otherwise not run again when those changed: go test would give a cached result. It must run in a test: go test
// does not see what TestMain opens.
func ReadSources(t testing.TB, root string) {
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

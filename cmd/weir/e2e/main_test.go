package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/child"
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
	if envoyBinary, err = child.FindEnvoy(root); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "weir-e2e-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if weirBinary, err = child.BuildWeir(root, dir); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

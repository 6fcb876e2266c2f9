package e2e_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

func TestMain(m *testing.M) {
	os.Exit(process.RunWith(m, &weirBinary, &envoyBinary))
}

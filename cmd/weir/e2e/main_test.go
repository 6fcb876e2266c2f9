package e2e_test

import (
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
	os.Exit(child.Main(m, root, func(weir, envoy string) { weirBinary, envoyBinary = weir, envoy }))
}

package dropin_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

var long = flag.Bool("long", false, "the long form: a million unknown domains, nine million overrides, a minute of snapshots, one of refusals")

// hang is how long anything may take before a test calls it hung.
const hang = process.Hang

// The test binary is three programs: the tests; one test again, in namespaces of its own; and what makes a container
// and then becomes what runs there.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerArgument {
		os.Exit(becomeContainer(os.Args[2]))
	}
	flag.Parse()
	if os.Getenv(nodeVariable) != "" {
		os.Exit(runOnNode(m))
	}
	os.Exit(process.RunWith(m, &weirBinary, &envoyBinary))
}

// form chooses between the short and the long form.
func form[T any](short, theLong T) T {
	if *long {
		return theLong
	}
	return short
}

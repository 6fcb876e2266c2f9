package dropin_test

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirproxy/weir/cmd/weir/e2e/child"
)

// The module's root, seen from this package.
var root = filepath.Join("..", "..", "..")

// The binaries under test. TestMain finds them; then they are only read.
var weirBinary, envoyBinary string

var long = flag.Bool("long", false, "the long form: a million unknown domains, nine million overrides, a minute of snapshots, one of refusals")

// plainWeir returns a weir without the race detector, for tests whose many calls matter more than what that would see.
var plainWeir = sync.OnceValues(func() (string, error) {
	if !child.RaceDetector {
		return weirBinary, nil
	}
	plain := filepath.Join(filepath.Dir(weirBinary), "weir-plain")
	return plain, child.Build(root, plain, false)
})

// hang is how long anything may take before a test calls it hung.
const hang = child.Hang

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
	os.Exit(child.Main(m, root, func(weir, envoy string) { weirBinary, envoyBinary = weir, envoy }))
}

// form chooses between the short and the long form.
func form[T any](short, theLong T) T {
	if *long {
		return theLong
	}
	return short
}

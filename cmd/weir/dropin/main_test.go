package dropin_test

import (
	"flag"
	"os"
	"testing"
)

var long = flag.Bool("long", false, "the long form: a million unknown domains, nine million overrides, 600 snapshots, 100,000 calls")

// The test binary is three programs: the tests; one test again, in namespaces of its own; and what makes a container
// and then becomes what runs there.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerArgument {
		os.Exit(becomeContainer(os.Args[2]))
	}
	flag.Parse()
	if hosts := os.Getenv(nodeVariable); hosts != "" {
		os.Exit(runOnNode(m, hosts))
	}
	os.Exit(m.Run())
}

// form chooses among the forms of go test -short, of go test and of -long.
func form(short, whole, theLong int) int {
	switch {
	case *long:
		return theLong
	case testing.Short():
		return short
	}
	return whole
}

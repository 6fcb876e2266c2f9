package dropin_test

import (
	"flag"
	"log"
	"os"
	"testing"
)

// The test binary is three programs: the tests; one test again, in namespaces of its own; and what makes a container
// and then becomes what runs there.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerArgument {
		os.Exit(becomeContainer(os.Args[2]))
	}
	flag.Parse()
	if hosts := os.Getenv(nodeVariable); hosts != "" {
		if err := makeNode(hosts); err != nil {
			log.Fatal("making a node: ", err)
		}
	}
	os.Exit(m.Run())
}

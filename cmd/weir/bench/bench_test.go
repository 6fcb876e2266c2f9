package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// TestMain lets the test binary be the floor server, as the bench's own binary is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == floorArgument {
		exitOn(serveFloor(os.Args[2]))
		return
	}
	os.Exit(m.Run())
}

// The bench works from its first server to its report. The floors stand for weir, too: each must cost as much as itself.
func TestBenchRatesTheFloorAtOne(t *testing.T) {
	var table strings.Builder
	for _, only := range []string{"floor --half-load 50ms", "long-floor --half-load 0"} { // whose deadline a slow machine misses
		o, err := parseOptions(strings.Fields("--rounds 1 --measure 50ms --warm-up 10ms --in-flight 2 --only "+only), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), o, &table, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(table.String(), "1.00  1.00..1.00") != 3 || !strings.Contains(table.String(), "1.00 of the floor's (1.00..1.00)") {
		t.Errorf("the report does not say that each floor costs 1.00 floors, and gives as many answers as itself:\n%s", table.String())
	}
}

func TestRequestsThroughEnvoyAreMeasured(t *testing.T) {
	var table strings.Builder
	o, err := parseOptions(append(strings.Fields("--envoy --rounds 1 --measure 100ms --warm-up 10ms --binary"), process.Weir(t)), io.Discard)
	if err == nil {
		err = run(t.Context(), o, &table, io.Discard)
	}
	if err != nil || !strings.Contains(table.String(), "1.0000..1.0000") || !strings.Contains(table.String(), "RLQS") {
		t.Errorf("%v, %s", err, table.String())
	}
}

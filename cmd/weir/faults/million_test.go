package faults_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// TestMillionKeysFitThePlannedMemory fills the memory backend with the keys that it has room for: a fifth of a million
// in make test and with the race detector, else twice a million, so that old ones are replaced. It compares what the
// process takes with what OPERATION.md tells operators to plan. A collector that the machine holds up takes more: a
// quarter above it is no failure.
func TestMillionKeysFitThePlannedMemory(t *testing.T) {
	const inOne, callers = 50, 8
	keys, asked := 1_000_000, 2_000_000
	if testing.Short() || process.Raced() {
		keys, asked = 200_000, 200_000
	}
	document, err := os.ReadFile("../OPERATION.md")
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile(`plan ([0-9,]+) MB for a million keys`).FindSubmatch(document)
	if told == nil {
		t.Fatal("OPERATION.md does not say how much memory to plan for a million keys")
	}
	plan, err := strconv.Atoi(strings.ReplaceAll(string(told[1]), ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, "- key: plan\n  descriptors:\n  - key: user\n"+
		"    rate_limit: { unit: hour, requests_per_unit: 1000 }\n", "BACKEND_TYPE=memory",
		fmt.Sprint("MEMORY_MAX_KEYS=", keys))
	var asking sync.WaitGroup
	client := r.Client(t)
	for caller := range callers {
		asking.Go(func() {
			for from := caller * inOne; from < asked; from += callers * inOne {
				var descriptors []*descriptorpb.RateLimitDescriptor
				for i := from; i < from+inOne; i++ {
					descriptors = append(descriptors, weirtest.Describe("plan", "much", "user", fmt.Sprint("somebody ", i)))
				}
				if _, err := client.Ask("shop", descriptors...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
	m := r.mustScrape(t)
	resident := int(m["process_resident_memory_bytes"] / 1e6)
	if m["weir_memory_keys"] != float64(keys) {
		t.Errorf("it holds %v keys, want %d", m["weir_memory_keys"], keys)
	}
	t.Logf("%d keys take %d MB; OPERATION.md has operators plan %d for a million", keys, resident, plan)
	const bare = 50 // MB, without keys
	if resident > bare+plan*5/4*keys/1_000_000 && !process.Raced() {
		t.Errorf("%d keys take %d MB, OPERATION.md has operators plan %d for a million", keys, resident, plan)
	}
}

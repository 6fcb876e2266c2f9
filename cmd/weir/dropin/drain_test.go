package dropin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// A replica drains until it is told to leave once more, which it is when Envoy has closed its connections. So no step can
// be too slow for the drain's delay.
func TestSIGTERMUnderLoadIsNoErrorToAnEnvoyThatHearsOfItLate(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	start := func() *weirtest.Weir {
		return weirtest.Ratelimit(t, nil, "- { key: plan, value: large, rate_limit: { unit: hour, requests_per_unit: 4000000000 } }",
			"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr, "DRAIN_DELAY=1h", "DRAIN_TIMEOUT=1h", weirtest.PatientRedis)
	}
	first, second := start(), start()
	endpoints := filepath.Join(t.TempDir(), "endpoints.json")
	writeEndpoints(t, endpoints, first, second)
	e := startEnvoy(t, "drain.yaml.tmpl", map[string]any{"Domain": "shop", "FailureModeDeny": true, "Endpoints": endpoints})
	running := e.startLoad(t, 8, "/")
	const calls = 500
	leave := func(leaving, staying *weirtest.Weir) {
		running.Reach(t, calls)
		leaving.Terminate(t)
		leaving.Eventually(t, "the drain has begun", func() error { return weirtest.WantStatus(leaving.Admin+"/readyz", 503) })
		running.Reach(t, calls) // half of them come to a replica that Envoy does not know to leave
		if err := leaving.Ended(); err != nil {
			t.Errorf("before Envoy has heard of it: %v", err)
		}
		writeEndpoints(t, endpoints, staying)
		weirtest.Eventually(t, "Envoy leaves", func() error { return wantNoConnections(leaving.GRPC) })
		leaving.Drain(t)
	}
	leave(first, second)
	third := start()
	writeEndpoints(t, endpoints, second, third)
	leave(second, third)
	running.Reach(t, calls)

	asked := running.wantAllPassed(t, "two replicas that leave under load")
	if got := counted(t, redis, "shop_plan_large_"); got != asked {
		t.Errorf("Redis holds a count of %d, want %d, that of the calls", got, asked)
	}
	t.Logf("%d calls", asked)
}

// wantNoConnections complains while somebody is connected to an address of this machine.
func wantNoConnections(addr string) error {
	_, port, _ := net.SplitHostPort(addr)
	number, err := strconv.Atoi(port)
	text, err2 := os.ReadFile("/proc/net/tcp")
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		const established = "01"
		if is := strings.Fields(line); is[1] == fmt.Sprintf("0100007F:%04X", number) && is[3] == established {
			return fmt.Errorf("there is a connection to %s: %s", addr, line)
		}
	}
	return nil
}

// writeEndpoints replaces what Envoy knows of replicas in one step.
func writeEndpoints(t *testing.T, file string, replicas ...*weirtest.Weir) {
	t.Helper()
	type object map[string]any
	var list []object
	for _, r := range replicas {
		host, port, _ := net.SplitHostPort(r.GRPC)
		list = append(list, object{"endpoint": object{"address": object{
			"socket_address": object{"address": host, "port_value": json.Number(port)}}}})
	}
	text, err := json.Marshal(object{"resources": []object{{
		"@type":        "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"cluster_name": "ratelimit", "endpoints": []object{{"lb_endpoints": list}},
	}}})
	if err == nil {
		err = errors.Join(os.WriteFile(file+".new", text, 0o644), os.Rename(file+".new", file))
	}
	if err != nil {
		t.Fatal(err)
	}
}

package dropin_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
)

// lag is how late Envoy learns that a replica is to leave: what endpoints take through Kubernetes, and more.
const lag = 3 * time.Second

func TestSIGTERMUnderLoadIsNoErrorToAnEnvoyThatHearsOfItThreeSecondsLate(t *testing.T) {
	t.Parallel()
	awaitRoomInHour()
	redis := redistest.Single(t)
	rules := map[string]string{"config.yaml": `
domain: shop
descriptors:
  - key: plan
    value: large
    rate_limit: { unit: hour, requests_per_unit: 4000000000 }
`}
	start := func() *replica {
		r := startReplica(t, weirBinary, rules, "REDIS_URL="+redis.Addr)
		r.ready(t)
		return r
	}
	first, second := start(), start()
	endpoints := filepath.Join(t.TempDir(), "endpoints.json")
	writeEndpoints(t, endpoints, first, second)
	e := startEnvoy(t, "drain.yaml.tmpl", map[string]any{"Domain": "shop", "FailureModeDeny": true, "Endpoints": endpoints})
	began := time.Now()
	running := e.startLoad(t, 8, "/")
	leave := func(leaving, staying *replica) {
		leaving.Terminate(t)
		time.Sleep(lag)
		if err := leaving.Ended(); err != nil {
			t.Errorf("before Envoy has heard of it: %v", err)
		}
		writeEndpoints(t, endpoints, staying)
		if code := leaving.ExitCode(t); code != 0 {
			t.Errorf("a replica that was told to leave ended with exit code %d, want 0", code)
		}
	}
	running.reach(t, 5_000)
	leave(first, second)
	third := start()
	writeEndpoints(t, endpoints, second, third)
	running.reach(t, running.asked.Load()+5_000)
	leave(second, third)
	running.reach(t, 100_000)

	asked := running.wantAllPassed(t, "two replicas that leave under load", e)
	t.Logf("%d calls in %v", asked, time.Since(began).Round(time.Second))
	if got := counted(t, redis, "shop_plan_large_"); got != asked {
		t.Errorf("Redis holds a count of %d, want %d, that of the calls", got, asked)
	}
}

// writeEndpoints replaces what Envoy knows of replicas in one step.
func writeEndpoints(t *testing.T, file string, replicas ...*replica) {
	t.Helper()
	type object = map[string]any
	var list []object
	for _, r := range replicas {
		list = append(list, object{"endpoint": object{"address": object{
			"socket_address": object{"address": "127.0.0.1", "port_value": r.port}}}})
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

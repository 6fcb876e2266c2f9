package charttest

import (
	"slices"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

// A limit is divided by REPLICAS where weir does not know better: by more than there are, and callers who are within it
// would be refused.
func TestWeirIsToldHowManyReplicasThereAreAtLeast(t *testing.T) {
	t.Parallel()
	const redis = "redis: {addresses: ['redis:6379']}\n"
	for _, tc := range []struct{ name, values, want string }{
		{"by default", redis, "2"},
		{"by their number", redis + "replicas: 5", "5"},
		{"while there are none", redis + "replicas: 0", "1"},
		{"with an autoscaler", redis + "replicas: 5\nautoscaling: {enabled: true, minReplicas: 3, maxReplicas: 9}", "3"},
		{"beside Envoys that nobody counts", redis + "mode: sidecar", ""},
		{"beside a number of Envoys", redis + "mode: sidecar\nreplicas: 40", "40"},
		{"counting in memory", "{}", ""},
	} {
		values := valuesOf(t, tc.values)
		var objects []Object
		if values["mode"] == "sidecar" {
			objects = renderBeside(t, map[string]any{"weir": values})
		} else {
			objects = render(t, "weir", values).Objects
		}
		for _, o := range objects {
			pod := podOf(decode(t, o))
			if pod == nil || o.Kind() != "Deployment" {
				continue
			}
			got := ""
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				for _, e := range c.Env {
					if e.Name == "REPLICAS" {
						got = e.Value
					}
				}
			}
			if got != tc.want {
				t.Errorf("%s REPLICAS is %q, want %q", tc.name, got, tc.want)
			}
		}
	}
}

// Each policy decides as the values say while there is no Redis: the example allows ten a minute.
func TestThePolicyDecidesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy, onNodeLoss string
		want               [3]int
	}{
		{"allow", "remap", [3]int{0, 0, 0}},
		{"allow", "pin", [3]int{0, 0, 0}},
		{"deny", "remap", [3]int{1, 1, 1}},
		{"local", "pin", [3]int{0, 0, 1}}, // ten a minute, divided by five replicas
		{"error", "remap", [3]int{2, 2, 2}},
	} {
		t.Run(tc.policy+" "+tc.onNodeLoss, func(t *testing.T) {
			t.Parallel()
			w := startRendered(t, render(t, "weir", map[string]any{"replicas": 5, "redis": map[string]any{"type": "ring",
				"addresses": []any{process.Addr(t)}, "onFailure": tc.policy, "onNodeLoss": tc.onNodeLoss}}))
			inOneMinute(t, func(user string) error { return wantCodes(t, w, "shop", "user="+user, tc.want[:]...) })
		})
	}
}

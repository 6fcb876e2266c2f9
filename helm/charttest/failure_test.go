package charttest

import (
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
)

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

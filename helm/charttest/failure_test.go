package charttest

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/process"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// Each policy decides as the values say while there is no Redis: the example allows ten a minute.
func TestThePolicyDecidesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ policy, onNodeLoss, want string }{
		{"allow", "remap", "OK OK OK"},
		{"allow", "pin", "OK OK OK"},
		{"deny", "remap", "OVER_LIMIT OVER_LIMIT OVER_LIMIT"},
		{"local", "pin", "OK OK OVER_LIMIT"}, // ten a minute, divided by five replicas
		{"error", "remap", "UNKNOWN UNKNOWN UNKNOWN"},
	} {
		t.Run(tc.policy+" "+tc.onNodeLoss, func(t *testing.T) {
			t.Parallel()
			w := startRendered(t, render(t, "weir", map[string]any{"replicas": 5, "redis": map[string]any{"type": "ring",
				"addresses": []any{process.Addr(t)}, "onFailure": tc.policy, "onNodeLoss": tc.onNodeLoss}}))
			client := weirtest.Dial(t, w.grpc)
			inOneMinute(t, func(user string) error {
				var got [3]any
				for i := range got {
					answer, _ := client.Ask("shop", weirtest.Describe("user", user)) // an error is UNKNOWN
					got[i] = answer.GetOverallCode()
				}
				if is := fmt.Sprint(got[:]...); is != tc.want {
					return fmt.Errorf("%s gets %s, want %s", user, is, tc.want)
				}
				return nil
			})
		})
	}
}

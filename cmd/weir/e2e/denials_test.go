package e2e_test

import (
	"fmt"
	"testing"

	"github.com/weirproxy/weir/backend/backendtest/redistest"
	"github.com/weirproxy/weir/cmd/weir/e2e/weirtest"
)

// An operator is asked about a night in which pods were replaced.
func TestDenialsSurviveTheirReplica(t *testing.T) {
	t.Parallel()
	redis := redistest.Single(t)
	w := weirtest.Serve(t, weirtest.Rule("small", "unit: hour, requests_per_unit: 1"), "REDIS_URL="+redis.Addr, weirtest.PatientRedis,
		"HISTORY_FLUSH_INTERVAL=1s", "DRAIN_DELAY=0s")
	client := w.Client(t)
	for range 3 {
		if _, err := client.Hit("small", "ann"); err != nil {
			t.Fatal(err)
		}
	}
	w.Drain(t)
	w.Restart(t)
	w.Eventually(t, "the next weir knows that ann was denied", func() error {
		var a struct {
			Recent []struct {
				Weir         string
				OverRequests int `json:"over_requests"`
			}
		}
		err := weirtest.GetJSON(w.Admin+"/api/v1/denials?from=-1h&descriptor=user%3Dann", &a)
		if err == nil && (len(a.Recent) != 1 || a.Recent[0].OverRequests != 2 || a.Recent[0].Weir == "") {
			err = fmt.Errorf("it lists %+v, want 2 requests of the weir before", a.Recent)
		}
		return err
	})
}

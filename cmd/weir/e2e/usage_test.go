package e2e_test

import (
	"fmt"
	"testing"
)

func TestUsageIsLookedAtOnTheWayInAndChargedAtTheStreamsEndPastTheLimit(t *testing.T) {
	t.Parallel()
	// The rule has no message: Envoy would charge the body of its 429 as well.
	w := startWeir(t, `
- key: plan
  value: metered
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2500 }
`)
	e, c := startEnvoy(t, w, failOpen), w.client(t)
	// Each response has 1,000 bytes. Envoy charges them after the caller has its answer, and nobody waits for that.
	for _, step := range []struct {
		before string // what the look on the way in sees
		after  uint32 // what is left once the response is charged
	}{
		{"2500", 1500},
		{"1500", 500},
		{"500", 0}, // 3,000 of 2,500: what was sent is charged although it does not fit
	} {
		a := e.get(t, "/usage", "bytes=1000", "metered", "ann")
		if a.status != 200 || a.remaining != step.before || len(a.body) != 1000 {
			t.Fatalf("a request with %s bytes left was answered %d with %d bytes and remaining %s: a look must pass and "+
				"count nothing", step.before, a.status, len(a.body), a.remaining)
		}
		eventually(t, "the bytes of a response are charged when its stream ends", func() error {
			status, err := c.look("metered", "ann")
			if err == nil && status.LimitRemaining != step.after {
				err = fmt.Errorf("%d bytes are left, want %d", status.LimitRemaining, step.after)
			}
			return err
		})
	}
	e.get(t, "/usage", "bytes=1000", "metered", "ann").wants(t, "a look at a limit that usage has passed is refused",
		answer{status: 429, limit: "2500, 2500;w=3600", remaining: "0"}, hourFrom-600, hourTo)

	status, err := c.refund(600, "metered", "ann")
	if err != nil {
		t.Fatalf("refunding 600 bytes: %v", err)
	}
	if status.LimitRemaining != 100 {
		t.Errorf("after a refund of 600 %d bytes are left, want 100: all 3,000 must have been counted, and nothing for the "+
			"request that was refused", status.LimitRemaining)
	}
	if a := e.get(t, "/usage", "bytes=1", "metered", "ann"); a.status != 200 {
		t.Errorf("with 100 bytes left a request was answered %d, want 200", a.status)
	}
}

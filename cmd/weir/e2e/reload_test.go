package e2e_test

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestAChangedFileIsInForceAndABrokenOneChangesNothing(t *testing.T) {
	t.Parallel()
	rules := func(perHour int) string {
		return fmt.Sprintf(`
- key: plan
  value: basic
  descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: %d }
`, perHour)
	}
	w := startWeir(t, rules(1_000_000))
	c := w.client(t)
	inForce := func(perHour uint32) error {
		status, err := c.look("basic", "ann")
		if err == nil && status.GetCurrentLimit().GetRequestsPerUnit() != perHour {
			err = fmt.Errorf("the limit in force is %v, want %d per hour", status.GetCurrentLimit(), perHour)
		}
		return err
	}
	if err := inForce(1_000_000); err != nil {
		t.Fatalf("before any change: %v", err)
	}
	running := startLoad(t, w, 2, func(c *client) error {
		status, err := c.hit("basic", "ann")
		if err == nil && status.CurrentLimit == nil {
			err = errors.New("a request was answered without a limit, as if there were no configuration")
		}
		return err
	})

	w.configure(t, rules(5))
	took := eventually(t, "a changed file is in force", func() error { return inForce(5) })
	t.Logf("a changed file was in force after %v; on a quiet machine that is within 2 s", took.Round(time.Millisecond))
	if status, err := c.hit("basic", "ann"); err != nil || status.Code.String() != "OVER_LIMIT" {
		t.Errorf("with more than 5 hits counted, a limit lowered to 5 answers %v (%v), want OVER_LIMIT: a reload keeps "+
			"the counts", status, err)
	}

	w.configure(t, "- key: plan\n  no_such_key: 7\n")
	w.says(t, "level=ERROR", "no_such_key")
	if err := inForce(5); err != nil {
		t.Fatalf("after a broken file the last good one stays in force, but: %v", err)
	}
	if err := wantStatus(w.admin+"/readyz", 200); err != nil {
		t.Errorf("a broken file must not take weir out of service: %v", err)
	}

	w.configure(t, rules(2_000_000))
	eventually(t, "a mended file is in force", func() error { return inForce(2_000_000) })
	running.wantNoFailures(t, "clients during a reload")
}
